/* SPDX-License-Identifier: MIT */
/* A program that is linked statically. */
int main(void)
{
	return 0;
}
