/* SPDX-License-Identifier: MIT */
/* libFuzzer: if bytes can be decoded, encoding the result returns the same bytes. */
#include <string.h>

#include "support/fuzz.h"
#include "blob.h"
#include "copyrpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[COPYRPC_INFO_SIZE];
	struct blob b;

	if (blob_decode(&b, data, size))
		return 0;
	must(size == sizeof(again));
	blob_encode(&b, again);
	must(!memcmp(again, data, size));
	return 0;
}
