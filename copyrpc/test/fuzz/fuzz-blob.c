/* SPDX-License-Identifier: MIT */
/* libFuzzer: if bytes can be decoded, encoding the result returns the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "blob.h"
#include "copyrpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[COPYRPC_INFO_SIZE];
	struct blob b;

	if (blob_decode(&b, data, size))
		return 0;
	if (size != sizeof(again))
		abort();
	blob_encode(&b, again);
	if (memcmp(again, data, size))
		abort();
	return 0;
}
