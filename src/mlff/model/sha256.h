/* sha256.h: SHA-256 (FIPS 180-4), to detect damaged or exchanged weights. */
#ifndef MLFF_SHA256_H
#define MLFF_SHA256_H

#include <stddef.h>

/* Hash of data[size] as 64 lower-case hex digits and a zero. */
void mlff_sha256_hex(const void *data, size_t size, char hex[65]);

/* The same with SHA instructions, or without; 0 if the processor has none. For tests. */
int mlff_sha256_hex_by(int instructions, const void *data, size_t size, char hex[65]);

#endif
