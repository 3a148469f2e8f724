/* Reading one value of a table from its file: the index partition that leads there, and the block.

   A stored block is a payload, plain or compressed by Snappy, and a trailer: the type, and the masked
   CRC32C of payload and type. */

#include "core.h"

#include <unistd.h>

/* The format, as in sstable/format.py. */
#define BLOCK_TRAILER_SIZE 5
#define CHECKSUM_SIZE 4
#define CHECKSUM_MASK_DELTA 0xA282EAD8u
#define STORED_RAW 0
#define STORED_SNAPPY 1

/* Larger blocks are left to the twin. */
#define MAX_STORED_SIZE (32 << 10)
#define MAX_PAYLOAD_SIZE (64 << 10)

typedef struct {
    uint8_t stored[MAX_STORED_SIZE];
    uint8_t unpacked[MAX_PAYLOAD_SIZE];
} Buffers;

/* Where the processor has no instruction for checksums, all is left to the twin. */
#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_CHECKSUMS

__attribute__((target("sse4.2"))) static uint32_t
checksum_of(const uint8_t *start, size_t size)
{
    uint64_t sum = 0xFFFFFFFF;
    while (size >= sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, start, sizeof word);
        sum = __builtin_ia32_crc32di(sum, word);
        start += sizeof word;
        size -= sizeof word;
    }
    for (size_t i = 0; i < size; i++) {
        sum = __builtin_ia32_crc32qi((uint32_t)sum, start[i]);
    }
    return ~(uint32_t)sum;
}

/* Read a number of `count` bytes, the lowest first. Return where it ends; NULL if there is none. */
static const uint8_t *
read_little(const uint8_t *from, const uint8_t *end, int count, uint32_t *number)
{
    if (end - from < count) {
        return NULL;
    }
    *number = 0;
    for (int i = 0; i < count; i++) {
        *number |= (uint32_t)from[i] << 8 * i;
    }
    return from + count;
}

/* Unpack raw Snappy: the size, then literals and copies of what was unpacked before.
   Return 0 if it is damaged or too large. */
static int
unpack(Bytes packed, uint8_t *to, Bytes *payload)
{
    const uint8_t *end = packed.start + packed.size;
    uint64_t size = 0;
    uint32_t done = 0;
    const uint8_t *position = read_varint(packed.start, end, 32, &size);

    if (position == NULL || size > MAX_PAYLOAD_SIZE) {
        return 0;
    }
    while (position < end) {
        uint8_t tag = *position;
        uint32_t count = (uint32_t)(tag >> 2) + 1;
        uint32_t distance = 0;
        position++;
        if ((tag & 3) == 0) {
            if (count > 60) {
                position = read_little(position, end, (int)count - 60, &count);
                if (position == NULL || count >= MAX_PAYLOAD_SIZE) {
                    return 0;
                }
                count++;
            }
            if (count > end - position || count > size - done) {
                return 0;
            }
            memcpy(to + done, position, count);
            position += count;
            done += count;
            continue;
        }
        if ((tag & 3) == 1) {
            count = 4 + (uint32_t)(tag >> 2 & 7);
            position = read_little(position, end, 1, &distance);
            distance |= (uint32_t)(tag >> 5) << 8;
        }
        else {
            position = read_little(position, end, (tag & 3) == 2 ? 2 : 4, &distance);
        }
        if (position == NULL || distance == 0 || distance > done || count > size - done) {
            return 0;
        }
        if (count <= distance) {
            memcpy(to + done, to + done - distance, count);
            done += count;
            continue;
        }
        for (; count > 0; count--) {
            to[done] = to[done - distance];
            done++;
        }
    }
    payload->start = to;
    payload->size = (Py_ssize_t)done;
    return done == size;
}

/* Read and unpack a block that ends before `limit`, its checksum verified.
   Return 0 if it is left to the twin. */
static int
read_block(int file, const uint64_t handle[2], uint64_t limit, Buffers *buffers, Bytes *payload)
{
    if (handle[1] == 0 || handle[1] > MAX_STORED_SIZE - BLOCK_TRAILER_SIZE) {
        return 0;
    }
    size_t size = (size_t)handle[1] + BLOCK_TRAILER_SIZE;
    if (handle[0] > limit || size > limit - handle[0]) {
        return 0;
    }
    if (pread(file, buffers->stored, size, (off_t)handle[0]) != (ssize_t)size) {
        return 0;
    }
    uint32_t sum = checksum_of(buffers->stored, size - CHECKSUM_SIZE);
    uint32_t masked = (sum >> 15 | sum << 17) + CHECKSUM_MASK_DELTA;
    if (masked != read_u32(buffers->stored + size - CHECKSUM_SIZE)) {
        return 0;
    }
    payload->start = buffers->stored;
    payload->size = (Py_ssize_t)handle[1];
    switch (buffers->stored[handle[1]]) {
    case STORED_RAW:
        return 1;
    case STORED_SNAPPY:
        return unpack(*payload, buffers->unpacked, payload);
    default:
        return 0;
    }
}

#endif

/* find_in_file(file descriptor, top of the index, where its partitions end or 0 if it has none,
   where the data blocks end, key) -> value; None if the table lacks the key, NotImplemented if it is
   left to the twin, which is `sstable.reader.KeyLookup.get`. */
PyObject *
find_in_file(PyObject *Py_UNUSED(module), PyObject *args)
{
    int file;
    int found = -1;
    PyObject *top_object, *key_object;
    unsigned long long partitions_end, blocks_end;

    if (!PyArg_ParseTuple(
            args, "iOKKO", &file, &top_object, &partitions_end, &blocks_end, &key_object))
    {
        return NULL;
    }
#ifdef HAS_CHECKSUMS
    Bytes index, key, value;
    uint64_t handle[2];
    Buffers buffers;

    if (!__builtin_cpu_supports("sse4.2") || !view_bytes(top_object, &index)
        || !view_bytes(key_object, &key))
    {
        Py_RETURN_NOTIMPLEMENTED;
    }
    Py_BEGIN_ALLOW_THREADS
    found = seek_handle(index, key, handle);
    if (found > 0 && partitions_end > 0) {
        found = read_block(file, handle, partitions_end, &buffers, &index)
                    ? seek_handle(index, key, handle)
                    : -1;
    }
    if (found > 0) {
        found = read_block(file, handle, blocks_end, &buffers, &index)
                    ? seek_value(index, key, &value)
                    : -1;
    }
    Py_END_ALLOW_THREADS
    if (found > 0) {
        return new_bytes(value.start, value.size);
    }
#endif
    if (found < 0) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    Py_RETURN_NONE;
}
