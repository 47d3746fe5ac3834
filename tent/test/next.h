/* SPDX-License-Identifier: MIT */
/* Functions of a test that replace those of a library. */
#ifndef TENT_TEST_NEXT_H
#define TENT_TEST_NEXT_H

#include <dlfcn.h>

/*
 * Defines a function that evaluates @before, and then calls the library's function of that name.
 * The names of the parameters follow, as arguments of that call.
 */
#define REPLACE(before, type, name, parameters, ...)                                               \
	type name parameters;                                                                      \
	type name parameters                                                                       \
	{                                                                                          \
		type(*next) parameters;                                                            \
		*(void **)&next = dlsym(RTLD_NEXT, #name);                                         \
		before;                                                                            \
		return next(__VA_ARGS__);                                                          \
	}

#endif
