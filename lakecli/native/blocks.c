/* Reading blocks: all entries, or one value or handle; and writing blocks of records.

   A block consists of entries and restart points. An entry has three numbers (how many bytes its
   key shares with the key before, how many it adds, and the size of its value), the added bytes and
   the value. Keys of records and of an index end with a trailer of eight bytes. A restart point is the offset of an entry
   whose key shares nothing. Offsets and the number of restart points have four bytes each, the
   lowest first. */

#include "core.h"

/* The format, as in sstable/format.py and sstable/block.py. */
#define KEY_TRAILER_SIZE 8
#define RESTART_SIZE 4
#define MAX_BLOCK_SIZE (128 << 20)
#define MAX_BLOCK_ENTRIES (1 << 18)
#define MAX_PROPERTIES 4096

/* Bytes that shared prefixes of LONG_PREFIX bytes or more may add to all keys of a block. */
#define SHARING_BUDGET (64 << 20)
#define LONG_PREFIX 0x80

/* Longer keys, with their trailer, are left to the twin. */
#define MAX_KEY_SIZE 4096

/* The numbers of an entry have at most four groups of seven bits, so sums of them do not overflow;
   those of a handle have eight. */
#define ENTRY_NUMBER_BITS 28
#define HANDLE_NUMBER_BITS 56

static const uint8_t RECORD_TRAILER[KEY_TRAILER_SIZE] = {1, 0, 0, 0, 0, 0, 0, 0};

/* The keys of pairs have no trailer. */
typedef enum { RECORDS, INDEX, PAIRS } Kind;

/* The entries of a block, read one after the other. */
typedef struct {
    const uint8_t *position;     /* of the next entry */
    const uint8_t *entries_end;  /* where the restart points begin */
    uint32_t restart_count;
    int64_t sharing_budget;
    int64_t entry_count;         /* entries that were read */
    int has_key;                 /* whether there was one, so that `key` and `value` are set */
    Py_ssize_t key_size;         /* of the entry that was read last, without its trailer */
    Bytes value;
    uint8_t key[MAX_KEY_SIZE];   /* with its trailer, because the next key may share that, too */
} Cursor;

uint32_t
read_u32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16
           | (uint32_t)from[3] << 24;
}

/* Compare two keys as Python compares bytes. */
static int
compare_keys(Bytes left, Bytes right)
{
    Py_ssize_t common = left.size < right.size ? left.size : right.size;
    int order = memcmp(left.start, right.start, (size_t)common);
    if (order != 0) {
        return order;
    }
    return (left.size > right.size) - (left.size < right.size);
}

/* Put a cursor before an entry; the keys before it are not known. */
static void
rewind_to(Cursor *cursor, const uint8_t *entry)
{
    cursor->position = entry;
    cursor->sharing_budget = SHARING_BUDGET;
    cursor->entry_count = 0;
    cursor->has_key = 0;
}

/* Put a cursor before the first entry of a block. Return 0 if the restart points do not fit. */
static int
open_block(Cursor *cursor, Bytes block)
{
    if (block.size < KEY_TRAILER_SIZE || block.size > MAX_BLOCK_SIZE) {
        return 0;
    }
    uint32_t restart_count = read_u32(block.start + block.size - RESTART_SIZE);
    if (restart_count == 0 || restart_count > block.size / RESTART_SIZE - 1) {
        return 0;
    }
    Py_ssize_t tail_size = RESTART_SIZE * ((Py_ssize_t)restart_count + 1);
    cursor->entries_end = block.start + block.size - tail_size;
    cursor->restart_count = restart_count;
    rewind_to(cursor, block.start);
    return 1;
}

/* Read the next entry. Return 0 if it is damaged or unusual, or its key is not greater than the
   one before. */
static int
read_entry(Cursor *cursor, Kind kind)
{
    const uint8_t *end = cursor->entries_end;
    uint64_t shared = 0;
    uint64_t added = 0;
    uint64_t value_size = 0;
    Py_ssize_t trailer_size = kind == PAIRS ? 0 : KEY_TRAILER_SIZE;

    const uint8_t *position = read_varint(cursor->position, end, ENTRY_NUMBER_BITS, &shared);
    if (position != NULL) {
        position = read_varint(position, end, ENTRY_NUMBER_BITS, &added);
    }
    if (position != NULL) {
        position = read_varint(position, end, ENTRY_NUMBER_BITS, &value_size);
    }
    if (position == NULL || added + value_size > (uint64_t)(end - position)) {
        return 0;
    }
    if (added < (uint64_t)trailer_size || shared + added > MAX_KEY_SIZE) {
        return 0;
    }
    if (cursor->entry_count == MAX_BLOCK_ENTRIES) {
        return 0;
    }
    cursor->entry_count++;
    if (shared >= LONG_PREFIX) {
        cursor->sharing_budget -= (int64_t)shared;
        if (cursor->sharing_budget < 0) {
            return 0;
        }
    }

    /* What the key adds, without the trailer, takes the place of the rest of the key before. */
    Bytes rest = {position, (Py_ssize_t)added - trailer_size};
    if (kind == RECORDS
        && memcmp(rest.start + rest.size, RECORD_TRAILER, KEY_TRAILER_SIZE) != 0)
    {
        return 0;  /* the keys of an index have any trailer */
    }
    if (cursor->has_key) {
        Bytes rest_before = {cursor->key + shared, cursor->key_size - (Py_ssize_t)shared};
        if (rest_before.size < -trailer_size) {
            return 0;  /* it shares more than the key before and its trailer */
        }
        /* A key that shares some of the trailer goes on where the key before ends, so it is
           greater. Any other is greater if its rest is. */
        if (rest_before.size >= 0 && compare_keys(rest, rest_before) <= 0) {
            return 0;
        }
    }
    else if (shared > 0) {
        return 0;
    }
    memcpy(cursor->key + shared, position, added);
    cursor->key_size = (Py_ssize_t)shared + rest.size;
    cursor->has_key = 1;
    cursor->value.start = position + added;
    cursor->value.size = (Py_ssize_t)value_size;
    cursor->position = position + added + value_size;
    return 1;
}

/* Append the value of a record. */
static int
append_value(PyObject *values, Bytes value)
{
    return append_owned(values, new_bytes(value.start, value.size));
}

int
read_handle(Fields *handles, uint64_t *offset, uint64_t *size)
{
    const uint8_t *end = handles->end;
    const uint8_t *position = read_varint(handles->position, end, HANDLE_NUMBER_BITS, offset);
    if (position != NULL) {
        position = read_varint(position, end, HANDLE_NUMBER_BITS, size);
    }
    handles->position = position;
    return position != NULL;
}

/* Read the two numbers of a handle, which say where a block is. Return 0 if it has others. */
static int
read_only_handle(Bytes handle, uint64_t numbers[2])
{
    Fields fields = {handle.start, handle.start + handle.size};
    return read_handle(&fields, &numbers[0], &numbers[1]) && fields.position == fields.end;
}

/* Append the two numbers of a handle. */
static int
append_handle(PyObject *list, Bytes handle)
{
    uint64_t numbers[2];
    return read_only_handle(handle, numbers)
           && append_owned(list, PyLong_FromUnsignedLongLong(numbers[0]))
           && append_owned(list, PyLong_FromUnsignedLongLong(numbers[1]));
}

/* Append all keys of a block, and what its values say.
   Return 0 after an error, or, without one, if the block is left to the twin. */
static int
append_entries(Cursor *cursor, Kind kind, PyObject *keys, PyObject *values)
{
    while (cursor->position < cursor->entries_end) {
        if (!read_entry(cursor, kind)) {
            return 0;
        }
        if (!append_owned(keys, new_bytes(cursor->key, cursor->key_size))) {
            return 0;
        }
        int is_appended = kind == INDEX ? append_handle(values, cursor->value)
                                        : append_value(values, cursor->value);
        if (!is_appended) {
            return 0;
        }
    }
    return 1;
}

/* Append all keys and values of a block. Return as `append_entries` does. */
static int
append_block(Bytes block, Kind kind, PyObject *keys, PyObject *values)
{
    Cursor cursor;
    return open_block(&cursor, block) && append_entries(&cursor, kind, keys, values);
}

int
append_records(Bytes block, PyObject *keys, PyObject *values)
{
    return append_block(block, RECORDS, keys, values);
}

static PyObject *
decode_block(PyObject *payload, Kind kind)
{
    Bytes block;
    PyObject *result = NULL;

    if (!view_bytes(payload, &block)) {
        Py_RETURN_NONE;
    }
    PyObject *keys = PyList_New(0);
    PyObject *values = PyList_New(0);
    if (keys != NULL && values != NULL) {
        if (append_block(block, kind, keys, values)) {
            result = PyTuple_Pack(2, keys, values);
        }
        else if (!PyErr_Occurred()) {
            result = Py_NewRef(Py_None);
        }
    }
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return result;
}

/* decode_records(payload) -> (keys, values): the twin is `sstable.block.decode_records`. */
PyObject *
decode_records(PyObject *Py_UNUSED(module), PyObject *payload)
{
    return decode_block(payload, RECORDS);
}

/* decode_index(payload) -> (keys, numbers), two numbers a key: the twin is
   `sstable.directory.decode_handles`. */
PyObject *
decode_index(PyObject *Py_UNUSED(module), PyObject *payload)
{
    return decode_block(payload, INDEX);
}

/* decode_pairs(payload) -> (keys, values): the twin is `sstable.block.decode_pairs`, which returns
   them as pairs. */
PyObject *
decode_pairs(PyObject *Py_UNUSED(module), PyObject *payload)
{
    return decode_block(payload, PAIRS);
}

/* Put a cursor before the last restart point whose key is not greater than a key, or before the
   first entry. Return 0 if a restart point that leads there is damaged or unusual. */
static int
find_run(Cursor *cursor, Kind kind, Bytes block, Bytes wanted)
{
    const uint8_t *restarts = cursor->entries_end;
    const uint8_t *run = block.start;
    uint32_t low = 0;
    uint32_t high = cursor->restart_count - 1;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        uint32_t offset = read_u32(restarts + RESTART_SIZE * (size_t)middle);
        if ((Py_ssize_t)offset >= cursor->entries_end - block.start) {
            return 0;
        }
        rewind_to(cursor, block.start + offset);
        if (!read_entry(cursor, kind)) {
            return 0;
        }
        Bytes key = {cursor->key, cursor->key_size};
        if (compare_keys(key, wanted) > 0) {
            high = middle - 1;
        }
        else {
            low = middle;
            run = block.start + offset;
        }
    }
    rewind_to(cursor, run);
    return 1;
}

/* Read the first entry of a block whose key is not less than `wanted`.
   Return 1; 0 if there is none; -1 if the block is left to the twin. */
static int
seek(Cursor *cursor, Kind kind, Bytes block, Bytes wanted, int *is_equal)
{
    if (!open_block(cursor, block) || !find_run(cursor, kind, block, wanted)) {
        return -1;
    }
    while (cursor->position < cursor->entries_end) {
        if (!read_entry(cursor, kind)) {
            return -1;
        }
        Bytes key = {cursor->key, cursor->key_size};
        int order = compare_keys(key, wanted);
        if (order >= 0) {
            *is_equal = order == 0;
            return 1;
        }
    }
    return 0;
}

int
seek_value(Bytes block, Bytes key, Bytes *value)
{
    Cursor cursor;
    int is_equal = 0;

    int found = seek(&cursor, RECORDS, block, key, &is_equal);
    if (found > 0) {
        *value = cursor.value;
        return is_equal;
    }
    return found;
}

int
find_pair(Bytes block, Bytes wanted, Bytes *value)
{
    Cursor cursor;
    int found = 0;

    if (!open_block(&cursor, block)) {
        return -1;
    }
    while (cursor.position < cursor.entries_end) {
        if (cursor.entry_count == MAX_PROPERTIES || !read_entry(&cursor, PAIRS)) {
            return -1;
        }
        Bytes key = {cursor.key, cursor.key_size};
        if (compare_keys(key, wanted) == 0) {
            *value = cursor.value;
            found = 1;
        }
    }
    return found;
}

int
seek_handle(Bytes block, Bytes key, uint64_t numbers[2])
{
    Cursor cursor;
    int is_equal;

    int found = seek(&cursor, INDEX, block, key, &is_equal);
    return found > 0 && !read_only_handle(cursor.value, numbers) ? -1 : found;
}

/* find_value(payload, key) -> value; None if the block lacks the key, NotImplemented if it is left
   to the twin, which is `sstable.block.find_value`. */
PyObject *
find_value(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *payload, *key_object;
    Bytes block, key, value;

    if (!PyArg_ParseTuple(args, "OO", &payload, &key_object)) {
        return NULL;
    }
    int found = view_bytes(payload, &block) && view_bytes(key_object, &key)
                    ? seek_value(block, key, &value)
                    : -1;
    if (found < 0) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return found ? new_bytes(value.start, value.size) : Py_NewRef(Py_None);
}

/* find_handle(payload, key) -> (offset, size); None if all keys are less, NotImplemented if it is
   left to the twin, which is `sstable.directory.find_handle`. */
PyObject *
find_handle(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *payload, *key_object;
    Bytes block, key;
    uint64_t numbers[2];

    if (!PyArg_ParseTuple(args, "OO", &payload, &key_object)) {
        return NULL;
    }
    int found = view_bytes(payload, &block) && view_bytes(key_object, &key)
                    ? seek_handle(block, key, numbers)
                    : -1;
    if (found < 0) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (!found) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("KK", (unsigned long long)numbers[0], (unsigned long long)numbers[1]);
}

/* Where a block of records ends, as in sstable/format.py. */
#define BLOCK_SIZE_MIN 2048
#define BLOCK_SIZE_MAX 8192
#define BLOCK_CUT_MASK 7
#define RESTART_INTERVAL 16

/* A block with a longer record is left to the twin. */
#define MAX_RECORD_SIZE 16384

/* What the three numbers of a record and its key's trailer take, at most and at least. */
#define MAX_FRAME_SIZE 23
#define MIN_RECORD_SIZE (3 + KEY_TRAILER_SIZE)

#define MAX_RESTARTS (BLOCK_SIZE_MAX / MIN_RECORD_SIZE / RESTART_INTERVAL + 1)

/* A block that is being written. */
typedef struct {
    Py_ssize_t entry_count;
    Py_ssize_t restart_count;
    uint32_t restarts[MAX_RESTARTS];
    Bytes key;     /* of the entry that was written last */
    uint8_t *end;  /* of the entries */
    uint8_t payload[BLOCK_SIZE_MAX + MAX_RECORD_SIZE + RESTART_SIZE * (MAX_RESTARTS + 1)];
} Builder;

static uint8_t *
write_u32(uint8_t *to, uint32_t number)
{
    for (int shift = 0; shift < 32; shift += 8) {
        *to = (uint8_t)(number >> shift);
        to++;
    }
    return to;
}

static Py_ssize_t
shared_prefix_size(Bytes left, Bytes right)
{
    Py_ssize_t size = 0;
    while (size < left.size && size < right.size && left.start[size] == right.start[size]) {
        size++;
    }
    return size;
}

/* Write an entry after those of a block that is not full. Return 0 if it is too long. */
static int
write_entry(Builder *block, Bytes key, Bytes value)
{
    if (key.size > MAX_KEY_SIZE || value.size > MAX_RECORD_SIZE - MAX_KEY_SIZE - MAX_FRAME_SIZE) {
        return 0;
    }
    Py_ssize_t shared = 0;
    if (block->entry_count % RESTART_INTERVAL == 0) {
        block->restarts[block->restart_count] = (uint32_t)(block->end - block->payload);
        block->restart_count++;
    }
    else {
        shared = shared_prefix_size(block->key, key);
    }
    Py_ssize_t added = key.size - shared;
    uint8_t *to = write_varint(block->end, (uint64_t)shared);
    to = write_varint(to, (uint64_t)(added + KEY_TRAILER_SIZE));
    to = write_varint(to, (uint64_t)value.size);
    memcpy(to, key.start + shared, (size_t)added);
    memcpy(to + added, RECORD_TRAILER, KEY_TRAILER_SIZE);
    memcpy(to + added + KEY_TRAILER_SIZE, value.start, (size_t)value.size);
    block->end = to + added + KEY_TRAILER_SIZE + value.size;
    block->key = key;
    block->entry_count++;
    return 1;
}

/* Return whether a block ends after the entry that was written last. */
static int
is_full(const Builder *block, unsigned long checksum)
{
    Py_ssize_t size = block->end - block->payload;
    return size >= BLOCK_SIZE_MAX || (size >= BLOCK_SIZE_MIN && (checksum & BLOCK_CUT_MASK) == 0);
}

/* Write the restart points, and return the payload. */
static PyObject *
finish_block(const Builder *block)
{
    uint8_t *to = block->end;
    for (Py_ssize_t i = 0; i < block->restart_count; i++) {
        to = write_u32(to, block->restarts[i]);
    }
    to = write_u32(to, (uint32_t)block->restart_count);
    return new_bytes(block->payload, to - block->payload);
}

/* encode_block(keys, values, checksums, start) -> (payload, position after the last record, whether
   the block is full): the twin is `sstable.block.encode_block`. */
PyObject *
encode_block(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *keys, *values, *checksums;
    Py_ssize_t position;
    Bytes key, value;
    Builder block;
    int is_ended = 0;

    if (!PyArg_ParseTuple(args, "OOOn", &keys, &values, &checksums, &position)) {
        return NULL;
    }
    if (!PyList_Check(keys) || !PyList_Check(values) || !PyList_Check(checksums)
        || PyList_Size(keys) != PyList_Size(values)
        || PyList_Size(keys) != PyList_Size(checksums)
        || position < 0 || position >= PyList_Size(keys))
    {
        Py_RETURN_NONE;
    }
    block.entry_count = 0;
    block.restart_count = 0;
    block.end = block.payload;
    while (!is_ended && position < PyList_Size(keys)) {
        PyObject *checksum = PyList_GetItem(checksums, position);
        if (!view_bytes(PyList_GetItem(keys, position), &key)
            || !view_bytes(PyList_GetItem(values, position), &value)
            || !PyLong_Check(checksum)
            || !write_entry(&block, key, value))
        {
            Py_RETURN_NONE;
        }
        is_ended = is_full(&block, PyLong_AsUnsignedLongMask(checksum));
        position++;
    }
    return Py_BuildValue("NnN", finish_block(&block), position, PyBool_FromLong(is_ended));
}

/* The type of compression, and a checksum. */
#define TRAILER_SIZE 5

/* encode_index_entries(list of keys, list of sizes, offset of the first block) -> entries: the twin
   is `sstable.writer.encode_index_entries`. */
PyObject *
encode_index_entries(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *keys, *sizes;
    unsigned long long offset;
    uint8_t head[12], handle[20];
    Bytes key;

    if (!PyArg_ParseTuple(args, "OOK", &keys, &sizes, &offset)) {
        return NULL;
    }
    if (!PyList_Check(keys) || !PyList_Check(sizes) || PyList_Size(keys) != PyList_Size(sizes)) {
        Py_RETURN_NONE;
    }
    PyObject *entries = PyList_New(0);
    int is_whole = entries != NULL;
    for (Py_ssize_t at = 0; is_whole && at < PyList_Size(keys); at++) {
        Py_ssize_t size = PyLong_AsSsize_t(PyList_GetItem(sizes, at));
        is_whole = size >= TRAILER_SIZE && view_bytes(PyList_GetItem(keys, at), &key);
        if (is_whole) {
            uint8_t *end = write_varint(write_varint(handle, offset), size - TRAILER_SIZE);
            head[0] = 0;  /* no byte is shared with the key before */
            uint8_t *to = write_varint(head + 1, key.size);
            *to = (uint8_t)(end - handle);
            Py_ssize_t head_size = to + 1 - head;
            Py_ssize_t total = head_size + key.size + (end - handle);
            PyObject *entry = PyBytes_FromStringAndSize(NULL, total);
            if (entry != NULL) {
                uint8_t *bytes = (uint8_t *)PyBytes_AsString(entry);
                memcpy(bytes, head, head_size);
                memcpy(bytes + head_size, key.start, key.size);
                memcpy(bytes + head_size + key.size, handle, end - handle);
            }
            is_whole = append_owned(entries, entry);
            offset += size;
        }
    }
    if (!is_whole) {
        Py_CLEAR(entries);
        if (!PyErr_Occurred()) {
            Py_RETURN_NONE;
        }
    }
    return entries;
}
