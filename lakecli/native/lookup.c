/* Stored blocks, and values of a table's file: the index partition that leads to each, and the block.

   A stored block is a payload, plain or compressed by Snappy, and a trailer: the type, and the masked
   CRC32C of payload and type. */

#include "core.h"

#include <unistd.h>

/* The format, as in sstable/format.py. */
#define BLOCK_TRAILER_SIZE 5
#define MIN_STORED_SIZE (BLOCK_TRAILER_SIZE + 2)
#define CHECKSUM_SIZE 4
#define CHECKSUM_MASK_DELTA 0xA282EAD8u
#define STORED_RAW 0
#define STORED_SNAPPY 1
#define FOOTER_SIZE 53
#define CHECKSUM_CRC32C 1
#define PROPERTIES_BLOCK "rocksdb.properties"

/* Bytes that are copied at once, where there is room: faster than as many as are wanted. */
#define WIDE 16

/* Larger blocks are left to the twin. */
#define MAX_STORED_SIZE (32 << 10)
#define MAX_PAYLOAD_SIZE (64 << 10)

/* The block that was read last, of its level. */
typedef struct {
    uint64_t handle[2];  /* its second number is 0 before the first block */
    Bytes payload;
    uint8_t stored[MAX_STORED_SIZE];
    uint8_t unpacked[MAX_PAYLOAD_SIZE];
} Block;

/* Where the processor has no instruction for checksums, all is left to the twin. A test defines
   NO_CHECKSUMS, to compile what other processors get. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(NO_CHECKSUMS)
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
            if (count <= WIDE && end - position >= WIDE && size - done >= WIDE) {
                memcpy(to + done, position, WIDE);
            }
            else {
                memcpy(to + done, position, count);
            }
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
        if (distance >= WIDE && count <= WIDE && size - done >= WIDE) {
            memcpy(to + done, to + done - distance, WIDE);
            done += count;
            continue;
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

/* Verify the checksum of a stored block and unpack it, into `unpacked` if it is packed; NULL: it must
   not be. Return 0 if it is left to the twin. */
static int
open_stored(Bytes stored, uint8_t *unpacked, Bytes *payload)
{
    if (stored.size < MIN_STORED_SIZE) {
        return 0;
    }
    const uint8_t *end = stored.start + stored.size - CHECKSUM_SIZE;
    uint32_t sum = checksum_of(stored.start, (size_t)(end - stored.start));
    if ((sum >> 15 | sum << 17) + CHECKSUM_MASK_DELTA != read_u32(end)) {
        return 0;
    }
    payload->start = stored.start;
    payload->size = stored.size - BLOCK_TRAILER_SIZE;
    return end[-1] == STORED_RAW
           || (end[-1] == STORED_SNAPPY && unpacked != NULL && unpack(*payload, unpacked, payload));
}

/* Read and unpack a block that ends before `limit`, its checksum verified, unless it is the last one
   that was read. Return 0 if it is left to the twin. */
static int
read_block(int file, const uint64_t handle[2], uint64_t limit, Block *block)
{
    if (handle[1] == 0 || handle[1] > MAX_STORED_SIZE - BLOCK_TRAILER_SIZE) {
        return 0;
    }
    if (handle[0] == block->handle[0] && handle[1] == block->handle[1]) {
        return 1;
    }
    size_t size = (size_t)handle[1] + BLOCK_TRAILER_SIZE;
    if (handle[0] > limit || size > limit - handle[0]) {
        return 0;
    }
    Bytes stored = {block->stored, (Py_ssize_t)size};
    block->handle[1] = 0;
    if (pread(file, block->stored, size, (off_t)handle[0]) != (ssize_t)size
        || !open_stored(stored, block->unpacked, &block->payload))
    {
        return 0;
    }
    block->handle[0] = handle[0];
    block->handle[1] = handle[1];
    return 1;
}

/* Find the value of a key; it lies in `block`. `ends` has where the index partitions end, 0 if there
   are none, and where the data blocks end. Return as `seek_value` does. */
static int
find(int file, Bytes top, const uint64_t ends[2], Bytes key, Block *partition, Block *block,
     Bytes *value)
{
    uint64_t handle[2];

    int found = seek_handle(top, key, handle);
    if (found > 0 && ends[0] > 0) {
        found = read_block(file, handle, ends[0], partition)
                    ? seek_handle(partition->payload, key, handle)
                    : -1;
    }
    if (found > 0) {
        found = read_block(file, handle, ends[1], block) ? seek_value(block->payload, key, value)
                                                         : -1;
    }
    return found;
}

#endif

#ifdef HAS_CHECKSUMS

/* Append the records of a stored block. Return 0 after an error, or if it is left to the twin. */
static int
append_stored(Bytes data, PyObject *offset, PyObject *size, PyObject *keys, PyObject *values)
{
    Bytes payload;
    uint8_t unpacked[MAX_PAYLOAD_SIZE];

    Py_ssize_t from = PyLong_AsSsize_t(offset);
    Py_ssize_t count = PyLong_AsSsize_t(size);
    if (from < 0 || count < 0 || from > data.size || count > data.size - from) {
        return 0;
    }
    Bytes stored = {data.start + from, count};
    return open_stored(stored, unpacked, &payload) && append_records(payload, keys, values);
}

#endif

/* decode_run(data, list of offsets, list of sizes) -> (keys of all stored blocks, their values,
   where the records of each block begin, and their number): the twin is
   `sstable.reader.decode_block`, called for each block. */
PyObject *
decode_run(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *data_object, *offsets, *sizes;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "OO!O!", &data_object, &PyList_Type, &offsets, &PyList_Type,
                          &sizes))
    {
        return NULL;
    }
#ifdef HAS_CHECKSUMS
    Bytes data;
    Py_ssize_t count = PyList_Size(offsets);
    if (__builtin_cpu_supports("sse4.2") && view_bytes(data_object, &data)
        && PyList_Size(sizes) == count)
    {
        PyObject *keys = PyList_New(0);
        PyObject *values = PyList_New(0);
        PyObject *starts = PyList_New(0);
        int is_whole = keys != NULL && values != NULL && starts != NULL
                       && append_owned(starts, PyLong_FromLong(0));
        for (Py_ssize_t at = 0; is_whole && at < count; at++) {
            is_whole = append_stored(data, PyList_GetItem(offsets, at), PyList_GetItem(sizes, at),
                                     keys, values)
                       && append_owned(starts, PyLong_FromSsize_t(PyList_Size(keys)));
        }
        if (is_whole) {
            result = PyTuple_Pack(3, keys, values, starts);
        }
        Py_XDECREF(keys);
        Py_XDECREF(values);
        Py_XDECREF(starts);
    }
#endif
    if (result == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return result;
}

#ifdef HAS_CHECKSUMS

/* The version and the magic, which end a file. */
static const uint8_t FOOTER_END[] = {2, 0, 0, 0, 0xF7, 0xCF, 0xF4, 0x85, 0xB7, 0x41, 0xE2, 0x88};

/* The last bytes of a file. */
typedef struct {
    const uint8_t *bytes;
    uint64_t start;  /* where they begin in the file */
    uint64_t end;
} Tail;

/* Read a handle, and unpack its block, which must lie in the tail and end before `limit`.
   Return where the block is; 0 if it is left to the twin. */
static uint64_t
open_part(const Tail *tail, Fields *handles, uint64_t limit, uint8_t *unpacked, Bytes *payload)
{
    uint64_t at = 0;
    uint64_t size = 0;

    if (!read_handle(handles, &at, &size) || at < tail->start || at > limit
        || size > MAX_PAYLOAD_SIZE || size + BLOCK_TRAILER_SIZE > limit - at)
    {
        return 0;
    }
    Bytes stored = {tail->bytes + (at - tail->start), (Py_ssize_t)size + BLOCK_TRAILER_SIZE};
    return open_stored(stored, unpacked, payload) ? at : 0;
}

/* Unpack the blocks of a tail that are its properties and the top of its index; `at` gets where they
   are. Return 0 if they are left to the twin. */
static int
open_tail(const Tail *tail, uint8_t *unpacked, Bytes parts[2], uint64_t at[2])
{
    const Bytes name = {(const uint8_t *)PROPERTIES_BLOCK, sizeof PROPERTIES_BLOCK - 1};
    const uint8_t *end = tail->bytes + (tail->end - tail->start);
    const uint8_t *footer = end - FOOTER_SIZE;
    Fields handles = {footer + 1, end - sizeof FOOTER_END};
    Bytes metaindex, handle;

    if (*footer != CHECKSUM_CRC32C || memcmp(handles.end, FOOTER_END, sizeof FOOTER_END) != 0) {
        return 0;
    }
    uint64_t metaindex_at = open_part(tail, &handles, tail->end - FOOTER_SIZE, NULL, &metaindex);
    if (metaindex_at == 0 || find_pair(metaindex, name, &handle) <= 0) {
        return 0;
    }
    at[1] = open_part(tail, &handles, tail->end - FOOTER_SIZE, unpacked, &parts[1]);
    if (at[1] == 0) {
        return 0;
    }
    for (; handles.position < handles.end; handles.position++) {
        if (*handles.position != 0) {
            return 0;
        }
    }
    handles.position = handle.start;
    handles.end = handle.start + handle.size;
    at[0] = open_part(tail, &handles, metaindex_at, NULL, &parts[0]);
    return at[0] != 0;
}

#endif

/* decode_tail(the last bytes of a file, the size of the file) -> (names and values of its properties,
   where they are, top of the index, where it is): the twin is `sstable.directory.read_tail`. */
PyObject *
decode_tail(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *bytes;
    unsigned long long size;
    if (!PyArg_ParseTuple(args, "OK", &bytes, &size)) {
        return NULL;
    }
#ifdef HAS_CHECKSUMS
    Bytes view, parts[2];
    uint64_t at[2];
    uint8_t unpacked[MAX_PAYLOAD_SIZE];

    if (__builtin_cpu_supports("sse4.2") && view_bytes(bytes, &view) && view.size >= FOOTER_SIZE
        && (uint64_t)view.size <= size)
    {
        Tail tail = {view.start, size - (uint64_t)view.size, size};
        if (open_tail(&tail, unpacked, parts, at)) {
            PyObject *payload = new_bytes(parts[0].start, parts[0].size);
            PyObject *pairs = payload == NULL ? NULL : decode_pairs(NULL, payload);
            Py_XDECREF(payload);
            if (pairs == NULL || pairs == Py_None) {
                return pairs;
            }
            return Py_BuildValue("NKNK", pairs, (unsigned long long)at[0],
                                 new_bytes(parts[1].start, parts[1].size),
                                 (unsigned long long)at[1]);
        }
    }
#endif
    Py_RETURN_NONE;
}

/* unpack_block(stored) -> payload: the twin is `sstable.block.unpack`. */
PyObject *
unpack_block(PyObject *Py_UNUSED(module), PyObject *object)
{
#ifdef HAS_CHECKSUMS
    Bytes stored, payload;
    uint8_t unpacked[MAX_PAYLOAD_SIZE];

    if (__builtin_cpu_supports("sse4.2") && view_bytes(object, &stored)
        && open_stored(stored, unpacked, &payload))
    {
        return new_bytes(payload.start, payload.size);
    }
#else
    (void)object;
#endif
    Py_RETURN_NONE;
}

/* find_in_file(file descriptor, top of the index, where its partitions end or 0 if it has none, where
   the data blocks end, list of keys) -> for each key its value, None if the table lacks the key, or
   NotImplemented if it is left to the twin, which is `sstable.reader.KeyLookup.get`. Keys in
   ascending order read each block once. */
PyObject *
find_in_file(PyObject *Py_UNUSED(module), PyObject *args)
{
    int file;
    PyObject *top_object, *keys;
    unsigned long long partitions_end, blocks_end;

    if (!PyArg_ParseTuple(args, "iOKKO!", &file, &top_object, &partitions_end, &blocks_end,
                          &PyList_Type, &keys))
    {
        return NULL;
    }
    PyObject *values = PyList_New(0);
#ifdef HAS_CHECKSUMS
    Bytes top;
    Block partition, block;
    uint64_t ends[2] = {partitions_end, blocks_end};
    int is_able = __builtin_cpu_supports("sse4.2") && view_bytes(top_object, &top);
    partition.handle[1] = block.handle[1] = 0;
#endif
    for (Py_ssize_t at = 0; values != NULL && at < PyList_Size(keys); at++) {
        PyObject *each = NULL;
        int found = -1;
#ifdef HAS_CHECKSUMS
        Bytes key, value;
        PyObject *held = Py_NewRef(PyList_GetItem(keys, at));
        if (is_able && view_bytes(held, &key)) {
            Py_BEGIN_ALLOW_THREADS
            found = find(file, top, ends, key, &partition, &block, &value);
            Py_END_ALLOW_THREADS
        }
        Py_DECREF(held);
        if (found > 0) {
            each = new_bytes(value.start, value.size);
        }
#endif
        if (found <= 0) {
            each = Py_NewRef(found < 0 ? Py_NotImplemented : Py_None);
        }
        if (!append_owned(values, each)) {
            Py_CLEAR(values);
        }
    }
    return values;
}
