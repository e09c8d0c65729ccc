/* Big-endian fields of MADs and records, by byte offset. */
#ifndef MCSM_FIELD_H
#define MCSM_FIELD_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t mcsm_get16(const uint8_t *data, unsigned offset)
{
    return data[offset] << 8 | data[offset + 1];
}

static inline uint32_t mcsm_get32(const uint8_t *data, unsigned offset)
{
    uint32_t value;

    memcpy(&value, data + offset, sizeof(value));
    return be32toh(value);
}

static inline uint64_t mcsm_get64(const uint8_t *data, unsigned offset)
{
    uint64_t value;

    memcpy(&value, data + offset, sizeof(value));
    return be64toh(value);
}

static inline void mcsm_put16(uint8_t *data, unsigned offset, uint16_t value)
{
    data[offset] = value >> 8;
    data[offset + 1] = value;
}

static inline void mcsm_put32(uint8_t *data, unsigned offset, uint32_t value)
{
    value = htobe32(value);
    memcpy(data + offset, &value, sizeof(value));
}

static inline void mcsm_put64(uint8_t *data, unsigned offset, uint64_t value)
{
    value = htobe64(value);
    memcpy(data + offset, &value, sizeof(value));
}

#endif
