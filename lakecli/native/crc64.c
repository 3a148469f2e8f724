/* CRC64NVME, the checksum that the AWS command line sends with objects. */

#include "core.h"

#define POLYNOMIAL 0x9a6c9329ac4bc9b5ULL

/* tables[i][b]: the CRC of a byte b that i bytes of zero follow; eight bytes are read at once. */
static uint64_t tables[8][256];

static void
make_tables(void)
{
    for (int byte = 0; byte < 256; byte++) {
        uint64_t crc = (uint64_t)byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? POLYNOMIAL : 0);
        }
        tables[0][byte] = crc;
    }
    for (int byte = 0; byte < 256; byte++) {
        for (int zeros = 1; zeros < 8; zeros++) {
            uint64_t before = tables[zeros - 1][byte];
            tables[zeros][byte] = tables[0][before & 0xff] ^ (before >> 8);
        }
    }
}

PyObject *
crc64nvme(PyObject *Py_UNUSED(module), PyObject *args)
{
    Bytes data;
    unsigned long long crc = 0;
    PyObject *object = NULL;
    if (!PyArg_ParseTuple(args, "SK", &object, &crc) || !view_bytes(object, &data)) {
        return NULL;
    }
    if (tables[0][1] == 0) {
        make_tables();
    }
    const uint8_t *from = data.start;
    const uint8_t *end = data.start + data.size;
    crc = ~crc;
    while (end - from >= 8) {
        uint64_t low = (uint64_t)read_u32(from) ^ (crc & 0xffffffff);
        uint64_t high = (uint64_t)read_u32(from + 4) ^ (crc >> 32);
        crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff]
              ^ tables[5][(low >> 16) & 0xff] ^ tables[4][low >> 24]
              ^ tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff]
              ^ tables[1][(high >> 16) & 0xff] ^ tables[0][high >> 24];
        from += 8;
    }
    while (from < end) {
        crc = tables[0][(crc ^ *from) & 0xff] ^ (crc >> 8);
        from++;
    }
    return PyLong_FromUnsignedLongLong(~crc);
}
