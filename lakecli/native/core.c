/* Blocks, values and digests in C.

   Each function has a twin in Python, with the same answers. What is unusual or damaged is left to
   the twin: the function returns None, or NotImplemented where None is an answer, and the twin
   answers or raises. Input may come from a bucket: every length is checked before it is used.

   This uses the limited API of Python 3.11, so one build serves all later versions. No function
   releases the GIL or calls back into Python, so lists do not change meanwhile. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define INTERFACE 2  /* as in __init__.py; increase both if the meaning of a function changes */

/* The format, as in sstable/format.py and sstable/block.py. */
#define TRAILER_SIZE 8
#define MAX_BLOCK_SIZE (128 << 20)
#define MAX_BLOCK_ENTRIES (1 << 18)
#define SHARING_BUDGET (64 << 20)
#define MAX_KEY 4096    /* longer keys are searched by the twin */
#define MAX_HASHED 1024 /* one chunk of BLAKE3; longer data are hashed by the twin */
#define DIGEST 32

static const uint8_t TRAILER[TRAILER_SIZE] = {1, 0, 0, 0, 0, 0, 0, 0};

typedef struct {
    const uint8_t *at;
    Py_ssize_t size;
} Bytes;

static int view(PyObject *object, Bytes *bytes) {
    if (object == NULL || !PyBytes_Check(object)) return 0;
    bytes->at = (const uint8_t *)PyBytes_AsString(object);
    bytes->size = PyBytes_Size(object);
    return 1;
}

/* Item `at` of a list that has it, borrowed; NULL, without an error, if it has not. */
static PyObject *item_of(PyObject *list, Py_ssize_t at) {
    return at >= 0 && at < PyList_Size(list) ? PyList_GetItem(list, at) : NULL;
}

/* Append an object that the caller owns; false, with an error, if there is no memory. */
static int append(PyObject *list, PyObject *owned) {
    int failed = owned == NULL || PyList_Append(list, owned) < 0;
    Py_XDECREF(owned);
    return !failed;
}

static PyObject *bytes_of(const uint8_t *at, Py_ssize_t size) {
    return PyBytes_FromStringAndSize((const char *)at, size);
}

static int compare(const uint8_t *at, Py_ssize_t size, Bytes other) {
    int order = memcmp(at, other.at, size < other.size ? size : other.size);
    return order ? order : (size > other.size) - (size < other.size);
}

static uint32_t u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint8_t *put(uint8_t *at, uint64_t number) {
    for (; number >= 0x80; number >>= 7) *at++ = (uint8_t)(number | 0x80);
    *at++ = (uint8_t)number;
    return at;
}

/* A number of at most four bytes in its shortest form; NULL if there is none. */
static const uint8_t *take(const uint8_t *at, const uint8_t *end, uint32_t *number) {
    *number = 0;
    for (int shift = 0; shift < 28 && at < end; shift += 7) {
        uint8_t byte = *at++;
        *number |= (uint32_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return byte || !shift ? at : NULL;
    }
    return NULL;
}

static const uint32_t IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
static const uint8_t ORDER[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1},
    {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4},
    {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

#define ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))
#define MIX(a, b, c, d, x, y)                             \
    a += b + (x); d = ROTATED(d ^ a, 16); c += d; b = ROTATED(b ^ c, 12); \
    a += b + (y); d = ROTATED(d ^ a, 8);  c += d; b = ROTATED(b ^ c, 7);

static void compress(uint32_t chain[8], const uint8_t block[64], uint32_t size, uint32_t flags) {
    uint32_t m[16], v[16];
    for (int i = 0; i < 16; i++) m[i] = u32(block + 4 * i);
    memcpy(v, chain, 32);
    memcpy(v + 8, IV, 16);
    v[12] = v[13] = 0, v[14] = size, v[15] = flags;
#pragma GCC unroll 7
    for (int round = 0; round < 7; round++) {
        const uint8_t *at = ORDER[round];
        MIX(v[0], v[4], v[8], v[12], m[at[0]], m[at[1]])
        MIX(v[1], v[5], v[9], v[13], m[at[2]], m[at[3]])
        MIX(v[2], v[6], v[10], v[14], m[at[4]], m[at[5]])
        MIX(v[3], v[7], v[11], v[15], m[at[6]], m[at[7]])
        MIX(v[0], v[5], v[10], v[15], m[at[8]], m[at[9]])
        MIX(v[1], v[6], v[11], v[12], m[at[10]], m[at[11]])
        MIX(v[2], v[7], v[8], v[13], m[at[12]], m[at[13]])
        MIX(v[3], v[4], v[9], v[14], m[at[14]], m[at[15]])
    }
    for (int i = 0; i < 8; i++) chain[i] = v[i] ^ v[i + 8];
}

/* The digest of at most MAX_HASHED bytes. */
static void hash(const uint8_t *at, Py_ssize_t size, uint8_t digest[DIGEST]) {
    enum { START = 1, END = 2, ROOT = 8 };
    uint32_t chain[8], flags = START;
    memcpy(chain, IV, sizeof chain);
    do {
        uint8_t block[64] = {0};
        Py_ssize_t part = size < 64 ? size : 64;
        memcpy(block, at, part);
        compress(chain, block, (uint32_t)part, size <= 64 ? flags | END | ROOT : flags);
        flags = 0;
        at += part;
        size -= part;
    } while (size);
    for (int i = 0; i < DIGEST; i++) digest[i] = (uint8_t)(chain[i / 4] >> i % 4 * 8);
}

typedef struct { uint32_t shared; Bytes key, value; } Record; /* `key`: its unshared part */

/* The position after the record at `at`, or NULL. */
static const uint8_t *read_record(const uint8_t *at, const uint8_t *end, Record *record) {
    uint32_t unshared, size;
    if (!(at = take(at, end, &record->shared)) || !(at = take(at, end, &unshared)) ||
        !(at = take(at, end, &size)))
        return NULL;
    if (unshared > end - at || size > end - at - (Py_ssize_t)unshared) return NULL;
    record->key = (Bytes){at, unshared};
    record->value = (Bytes){at + unshared, size};
    return at + unshared + size;
}

/* The number of restart points of a block; 0 if they do not fit. */
static uint32_t restarts_of(Bytes block) {
    if (block.size < TRAILER_SIZE || block.size > MAX_BLOCK_SIZE) return 0;
    uint32_t count = u32(block.at + block.size - 4);
    return count <= (block.size - 4) / 4 ? count : 0;
}

/* decode_records(payload) -> (keys, values): twin `sstable.block.decode_records`. */
static PyObject *decode_records(PyObject *Py_UNUSED(module), PyObject *payload) {
    Bytes block, last = {NULL, 0};
    uint32_t restarts = view(payload, &block) ? restarts_of(block) : 0;
    if (!restarts) return Py_NewRef(Py_None);
    const uint8_t *at = block.at, *end = block.at + block.size - 4 - 4 * (Py_ssize_t)restarts;
    PyObject *keys = PyList_New(0), *values = PyList_New(0), *pair = NULL;
    int64_t budget = SHARING_BUDGET;
    if (keys == NULL || values == NULL) goto done;
    for (int count = 0; at < end; count++) {
        Record record;
        at = read_record(at, end, &record);
        if (at == NULL || count == MAX_BLOCK_ENTRIES || record.key.size < TRAILER_SIZE) goto odd;
        Py_ssize_t shared = record.shared, rest = record.key.size - TRAILER_SIZE;
        if (memcmp(record.key.at + rest, TRAILER, TRAILER_SIZE) ||
            shared > last.size + (count ? TRAILER_SIZE : 0) ||
            (shared >= 0x80 && (budget -= shared) < 0))
            goto odd;
        PyObject *key = PyBytes_FromStringAndSize(NULL, shared + rest);
        if (key == NULL) goto done;
        uint8_t *to = (uint8_t *)PyBytes_AsString(key);
        Py_ssize_t from_last = shared < last.size ? shared : last.size;
        if (from_last) memcpy(to, last.at, from_last);
        memcpy(to + from_last, TRAILER, shared - from_last);
        memcpy(to + shared, record.key.at, rest);
        int ascends = !count || compare(to, shared + rest, last) > 0;
        if (!append(keys, key)) goto done;
        if (!ascends) goto odd;
        last = (Bytes){to, shared + rest};
        if (!append(values, bytes_of(record.value.at, record.value.size))) goto done;
    }
    pair = PyTuple_Pack(2, keys, values);
    goto done;
odd:
    pair = Py_NewRef(Py_None);
done:
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return pair;
}

/* The value of a key in a block, None if it has none, NotImplemented if the twin must say. */
static PyObject *search(Bytes block, Bytes wanted) {
    uint8_t key[MAX_KEY];
    uint32_t low = 0, restarts = restarts_of(block);
    if (!restarts) return Py_NewRef(Py_NotImplemented);
    const uint8_t *at = block.at, *end = block.at + block.size - 4 - 4 * (Py_ssize_t)restarts;
    Record record;
    for (uint32_t high = restarts - 1; low < high;) {
        uint32_t middle = low + (high - low + 1) / 2, offset = u32(end + 4 * (Py_ssize_t)middle);
        if (offset >= end - block.at || !read_record(block.at + offset, end, &record) ||
            record.shared || record.key.size < TRAILER_SIZE)
            return Py_NewRef(Py_NotImplemented);
        if (compare(record.key.at, record.key.size - TRAILER_SIZE, wanted) > 0)
            high = middle - 1;
        else
            low = middle, at = block.at + offset;
    }
    Py_ssize_t size = 0;
    int64_t budget = SHARING_BUDGET;
    for (int count = 0; at < end; count++) {
        at = read_record(at, end, &record);
        if (at == NULL || count == MAX_BLOCK_ENTRIES || record.shared > size ||
            record.key.size > MAX_KEY - (Py_ssize_t)record.shared ||
            (record.shared >= 0x80 && (budget -= record.shared) < 0))
            return Py_NewRef(Py_NotImplemented);
        memcpy(key + record.shared, record.key.at, record.key.size);
        size = record.shared + record.key.size;
        if (size < TRAILER_SIZE) return Py_NewRef(Py_NotImplemented);
        int order = compare(key, size - TRAILER_SIZE, wanted);
        if (order < 0) continue;
        if (order || memcmp(key + size - TRAILER_SIZE, TRAILER, TRAILER_SIZE)) break;
        return bytes_of(record.value.at, record.value.size);
    }
    return Py_NewRef(Py_None);
}

/* find_value(payload, key): twin `sstable.block.find_value`. */
static PyObject *find_value(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *payload, *key;
    Bytes block, wanted;
    if (!PyArg_ParseTuple(args, "OO", &payload, &key)) return NULL;
    if (!view(payload, &block) || !view(key, &wanted)) return Py_NewRef(Py_NotImplemented);
    return search(block, wanted);
}

/* Reduce a value to its identity of 32 or 64 bytes; false if it has another. */
static int identify(Bytes *value) {
    int wide = value->size > 1 && value->at[0] == 0x80 && value->at[1] == 1;
    Py_ssize_t start = 1 + wide, size = (1 + wide) * DIGEST;
    if (value->size < start + size || (!wide && value->at[0] != 2 * DIGEST)) return 0;
    *value = (Bytes){value->at + start, size};
    return 1;
}

/* digests(keys, values) -> (digests of the keys, record IDs), each joined: twin
   `committed.values.digests`. */
static PyObject *digests(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *keys, *values, *of_keys, *ids, *pair = NULL;
    if (!PyArg_ParseTuple(args, "OO", &keys, &values)) return NULL;
    if (!PyList_Check(keys) || !PyList_Check(values) || PyList_Size(keys) != PyList_Size(values))
        return Py_NewRef(Py_None);
    Py_ssize_t count = PyList_Size(keys), i = 0;
    of_keys = bytes_of(NULL, DIGEST * count);
    ids = bytes_of(NULL, DIGEST * count);
    int made = of_keys != NULL && ids != NULL;
    for (; made && i < count; i++) {
        Bytes key, identity;
        uint8_t both[2 * DIGEST];
        if (!view(item_of(keys, i), &key) || !view(item_of(values, i), &identity) ||
            key.size > MAX_HASHED || !identify(&identity))
            break;
        hash(key.at, key.size, both);
        hash(identity.at, identity.size, both + DIGEST);
        memcpy(PyBytes_AsString(of_keys) + DIGEST * i, both, DIGEST);
        hash(both, sizeof both, (uint8_t *)PyBytes_AsString(ids) + DIGEST * i);
    }
    if (made) pair = i == count ? PyTuple_Pack(2, of_keys, ids) : Py_NewRef(Py_None);
    Py_XDECREF(of_keys);
    Py_XDECREF(ids);
    return pair;
}

static uint8_t *join(uint8_t *to, const void *from, Py_ssize_t size) {
    return (uint8_t *)memcpy(to, from, size) + size;
}

static uint8_t *frame(uint8_t *to, const char *tag, Py_ssize_t tag_size, int64_t number) {
    to = join(to, tag, tag_size);
    for (int shift = 56; shift >= 0; shift -= 8) *to++ = (uint8_t)((uint64_t)number >> shift);
    return to;
}

static uint8_t *text(uint8_t *to, uint8_t tag, Bytes data) {
    *to++ = tag;
    return join(put(to, (uint64_t)data.size), data.at, data.size);
}

/* encode_external(addresses, sizes, checksums, seconds, types or None) -> values: twin
   `committed.encode.encode_external`. The value of an unusual row is None. */
static PyObject *encode_external(PyObject *Py_UNUSED(module), PyObject *args) {
    static const char START[] = "\1\2\10\0\0\0\0\0\0\0\17lakecli:entry:1\2\10";
    PyObject *columns[5], *values;
    if (!PyArg_ParseTuple(args, "OOOOO", columns, columns + 1, columns + 2, columns + 3,
                          columns + 4))
        return NULL;
    for (int i = 0; i < 5; i++)
        if ((i < 4 || columns[4] != Py_None) &&
            (!PyList_Check(columns[i]) || PyList_Size(columns[i]) != PyList_Size(columns[0])))
            return Py_NewRef(Py_None);
    values = PyList_New(0);
    for (Py_ssize_t i = 0; values != NULL && i < PyList_Size(columns[0]); i++) {
        Bytes address = {NULL, 0}, checksum = address, type = {(const uint8_t *)"", 0};
        uint8_t hashed[MAX_HASHED], message[MAX_HASHED], value[MAX_HASHED], seconds[11];
        int64_t numbers[2] = {0, 0};
        int overflow = 0, usual = view(item_of(columns[0], i), &address) &&
                                  view(item_of(columns[2], i), &checksum) &&
                                  (columns[4] == Py_None || view(item_of(columns[4], i), &type));
        for (int n = 0; usual && n < 2; n++) {
            PyObject *number = item_of(columns[2 * n + 1], i);
            usual = number != NULL && PyLong_Check(number);
            if (usual) numbers[n] = PyLong_AsLongLongAndOverflow(number, &overflow);
            usual = usual && !overflow && numbers[n] > 0;
        }
        /* Texts are in `hashed` with 80 bytes of frames, in `value` with at most 71 more. */
        if (!usual || !address.size || !checksum.size || address.size > MAX_HASHED ||
            checksum.size > MAX_HASHED || type.size > MAX_HASHED ||
            address.size + checksum.size + type.size > MAX_HASHED - 80) {
            if (!append(values, Py_NewRef(Py_None))) Py_CLEAR(values);
            continue;
        }
        uint8_t *to = frame(hashed, START, sizeof START - 1, numbers[0]);
        to = join(frame(to, "\1\2\10", 3, checksum.size), checksum.at, checksum.size);
        to = frame(to, "\4\2\10", 3, 0);
        to = join(frame(to, "\1\2\10", 3, type.size), type.at, type.size);
        to = join(frame(to, "\1\2\10", 3, address.size), address.at, address.size);
        value[0] = 2 * DIGEST;
        hash(hashed, to - hashed, value + 1);
        seconds[0] = 0x08;
        Py_ssize_t seconds_size = put(seconds + 1, (uint64_t)numbers[1]) - seconds;
        to = text(text(message, 0x0A, address), 0x12, (Bytes){seconds, seconds_size});
        *to++ = 0x18;
        to = text(put(to, (uint64_t)numbers[0]), 0x22, checksum);
        to = join(to, "\x30\2", 2);
        if (type.size) to = text(to, 0x3A, type);
        uint8_t *end = put(value + 1 + DIGEST, (uint64_t)(to - message) << 1);
        end = join(end, message, to - message);
        if (!append(values, bytes_of(value, end - value))) Py_CLEAR(values);
    }
    return values;
}

static PyMethodDef methods[] = {
    {"decode_records", decode_records, METH_O, NULL},
    {"find_value", find_value, METH_VARARGS, NULL},
    {"digests", digests, METH_VARARGS, NULL},
    {"encode_external", encode_external, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_core", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 ||
        PyModule_AddStringConstant(module, "SOURCE", SOURCE) < 0)
        Py_CLEAR(module);
    return module;
}
