/* Blocks, values and digests in C.

   Each function has a twin in Python, with the same answers. What is unusual or damaged is left to
   the twin: the function returns None, or NotImplemented where None is an answer, and the twin
   answers or raises. Input may come from a bucket: every length is checked before it is used.

   This uses the limited API of Python 3.11, so one build serves all later versions. No function
   releases the GIL or calls back into Python, so lists do not change meanwhile. It is compiled for
   machines that put the lowest byte first; CLONED makes a function for each kind of processor. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define INTERFACE 4  /* as in __init__.py; increase both if the meaning of a function changes */

/* The format, as in sstable/format.py and sstable/block.py. */
enum { TRAILER_SIZE = 8, MAX_BLOCK_SIZE = 128 << 20, MAX_BLOCK_ENTRIES = 1 << 18, DIGEST = 32 };
enum { MAX_KEY = 4096, SHARING_BUDGET = 64 << 20 }; /* longer keys are left to the twin */
enum { MAX_HASHED = 1024, LANES = 8 }; /* one chunk of BLAKE3; the twin hashes longer texts */
static const uint8_t TRAILER[TRAILER_SIZE] = {1, 0, 0, 0, 0, 0, 0, 0};
typedef struct { const uint8_t *at; Py_ssize_t size; } Bytes;
static int view(PyObject *object, Bytes *bytes) {
    if (object == NULL || !PyBytes_Check(object)) return 0;
    return *bytes = (Bytes){(const uint8_t *)PyBytes_AsString(object), PyBytes_Size(object)}, 1;
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

/* Two objects that the caller owns, as a tuple; None if they are of no use, NULL after an error. */
static PyObject *pair_of(PyObject *a, PyObject *b, int made) {
    PyObject *pair = made ? PyTuple_Pack(2, a, b) : PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    Py_XDECREF(a), Py_XDECREF(b);
    return pair;
}

#define bytes_of(at, size) PyBytes_FromStringAndSize((const char *)(at), size)
static int compare(const uint8_t *at, Py_ssize_t size, Bytes other) {
    int order = memcmp(at, other.at, size < other.size ? size : other.size);
    return order ? order : (size > other.size) - (size < other.size);
}
static uint32_t u32(const uint8_t *at) { uint32_t n; return memcpy(&n, at, sizeof n), n; }
static uint8_t *put(uint8_t *at, uint64_t number) {
    for (; number >= 0x80; number >>= 7) *at++ = (uint8_t)(number | 0x80);
    return *at++ = (uint8_t)number, at;
}

/* A number of at most `bits` bits in its shortest form; NULL if there is none. */
static const uint8_t *take(const uint8_t *at, const uint8_t *end, uint64_t *number, int bits) {
    *number = 0;
    for (int shift = 0; shift < bits && at < end; shift += 7) {
        uint8_t byte = *at++;
        *number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return byte || !shift ? at : NULL;
    }
    return NULL;
}

static const uint32_t IV[8] = {0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
                               0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19};
static const uint8_t ORDER[16] = {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8};

#define ROTATED(x, n) ((x) >> (n) | (x) << (32 - (n)))
#define MIX(a, b, c, d, i)                                                                      \
    v[a] += v[b] + m[i];     v[d] = ROTATED(v[d] ^ v[a], 16);                                   \
    v[c] += v[d];            v[b] = ROTATED(v[b] ^ v[c], 12);                                   \
    v[a] += v[b] + m[i + 1]; v[d] = ROTATED(v[d] ^ v[a], 8);                                    \
    v[c] += v[d];            v[b] = ROTATED(v[b] ^ v[c], 7);

typedef uint32_t Lanes __attribute__((vector_size(4 * LANES)));
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (Lanes){__VA_ARGS__})
#endif
#define SWAP(i, n, a, b, c, d, e, f, g, h) if (!(i & n)) {                                      \
        Lanes x = r[i], y = r[i + n]; r[i] = SHUFFLE(x, y, a, b, c, d, e, f, g, h);             \
        r[i + n] = SHUFFLE(x, y, a + n, b + n, c + n, d + n, e + n, f + n, g + n, h + n); }

/* Make columns of rows: eight words of eight lanes. */
static inline __attribute__((always_inline)) void transpose(Lanes r[LANES]) {
    for (int i = 0; i < LANES; i++) SWAP(i, 4, 0, 1, 2, 3, 8, 9, 10, 11)
    for (int i = 0; i < LANES; i++) SWAP(i, 2, 0, 1, 8, 9, 4, 5, 12, 13)
    for (int i = 0; i < LANES; i++) SWAP(i, 1, 0, 8, 2, 10, 4, 12, 6, 14)
}

/* The digests of at most LANES texts, of at most MAX_HASHED bytes each, all at a time. */
CLONED static void hash(int count, const Bytes *texts, uint8_t *const *digests) {
    enum { START = 1, END = 2, ROOT = 8, BLOCK = 64 };
    Lanes m[16], v[16], ended[8];
    int more = 1;
    for (int i = 0; i < 8; i++) v[i] = (Lanes){0} + IV[i];
    for (Py_ssize_t done = 0; more; done += BLOCK) {
        uint32_t sizes[2][LANES] = {{0}};
        memset(m, more = 0, sizeof m);
        for (int n = 0; n < count; n++) {
            Py_ssize_t left = texts[n].size - done, size = left < BLOCK ? left : BLOCK;
            uint8_t last[BLOCK] = {0};
            const uint8_t *block = size == BLOCK ? texts[n].at + done : last;
            if (block == last && size > 0) memcpy(last, texts[n].at + done, size);
            memcpy(m + n, block, DIGEST), memcpy(m + 8 + n, block + DIGEST, DIGEST);
            int ends = left <= BLOCK && (left > 0 || !done);
            sizes[0][n] = (uint32_t)size, more |= left > BLOCK;
            sizes[1][n] = (done ? 0 : START) | (ends ? END | ROOT : 0);
        }
        transpose(m), transpose(m + 8);
        for (int i = 0; i < 4; i++) v[i + 8] = (Lanes){0} + IV[i];
        v[12] = v[13] = (Lanes){0};
        memcpy(v + 14, sizes, sizeof sizes);
#pragma GCC unroll 7
        for (int round = 0; round < 7; round++) {
            MIX(0, 4, 8, 12, 0) MIX(1, 5, 9, 13, 2) MIX(2, 6, 10, 14, 4) MIX(3, 7, 11, 15, 6)
            MIX(0, 5, 10, 15, 8) MIX(1, 6, 11, 12, 10) MIX(2, 7, 8, 13, 12) MIX(3, 4, 9, 14, 14)
            Lanes old[16];
            memcpy(old, m, sizeof m);
            for (int i = 0; i < 16; i++) m[i] = old[ORDER[i]];
        }
        for (int i = 0; i < 8; i++) ended[i] = v[i] ^= v[i + 8];
        transpose(ended);
        for (int n = 0; n < count; n++)
            if (sizes[1][n] & END) memcpy(digests[n], ended + n, DIGEST);
    }
}

/* The records of a data block, one after the other. */
typedef struct {
    const uint8_t *at, *end;
    int64_t budget, count; Bytes value;
    Py_ssize_t size; /* of the key, without its trailer; less than 0 before the first */
    uint8_t key[MAX_KEY];
} Cursor;

/* Go before the first record of a block; return its restart points, 0 if they do not fit. */
static uint32_t enter(Cursor *cursor, Bytes block) {
    int is_block = block.size >= TRAILER_SIZE && block.size <= MAX_BLOCK_SIZE;
    uint32_t restarts = is_block ? u32(block.at + block.size - 4) : 0;
    if (restarts > block.size / 4 - 1) return 0;
    cursor->at = block.at, cursor->end = block.at + block.size - 4 - 4 * (Py_ssize_t)restarts;
    cursor->budget = SHARING_BUDGET, cursor->count = 0, cursor->size = -TRAILER_SIZE;
    return restarts;
}

/* Go to the next record, or entry of an index, whose keys have any trailers; false if it is odd, or
   its key not greater than the last one. */
static int step(Cursor *cursor, int is_index) {
    const uint8_t *at = cursor->at, *end = cursor->end;
    uint64_t shared, added, size;
    if (!(at = take(at, end, &shared, 28)) || !(at = take(at, end, &added, 28)) ||
        !(at = take(at, end, &size, 28)) || (int64_t)(added + size) > end - at ||
        cursor->count++ == MAX_BLOCK_ENTRIES || added < TRAILER_SIZE || shared + added > MAX_KEY ||
        (shared >= 0x80 && (cursor->budget -= shared) < 0))
        return 0;
    Py_ssize_t rest = (Py_ssize_t)added - TRAILER_SIZE, old = cursor->size - (Py_ssize_t)shared;
    uint8_t *to = cursor->key + shared; /* a key shares some of the last one and of its trailer */
    if (old < -TRAILER_SIZE || (!is_index && memcmp(at + rest, TRAILER, TRAILER_SIZE)) ||
        (old >= 0 && compare(at, rest, (Bytes){to, old}) <= 0))
        return 0;
    memcpy(to, at, added), cursor->size = (Py_ssize_t)shared + rest;
    cursor->value = (Bytes){at + added, (Py_ssize_t)size}, cursor->at = at + added + size;
    return 1;
}

/* decode_records(payload) -> (keys, values): twin `sstable.block.decode_records`;
   decode_index(payload) -> (keys, numbers): twin `sstable.directory.decode_handles`. */
static PyObject *decode(PyObject *payload, int is_index) {
    Bytes block;
    Cursor cursor;
    if (!view(payload, &block) || !enter(&cursor, block)) return Py_NewRef(Py_None);
    PyObject *keys = PyList_New(0), *values = PyList_New(0);
    int is_usual = keys != NULL && values != NULL;
    while (is_usual && cursor.at < cursor.end) {
        uint64_t number;
        is_usual = step(&cursor, is_index) && append(keys, bytes_of(cursor.key, cursor.size)) &&
                   (is_index || append(values, bytes_of(cursor.value.at, cursor.value.size)));
        for (const uint8_t *at = cursor.value.at; is_usual && is_index && at < cursor.at;)
            is_usual = (at = take(at, cursor.at, &number, 56)) != NULL &&
                       append(values, PyLong_FromUnsignedLongLong(number));
        is_usual = is_usual && PyList_Size(values) == (1 + is_index) * PyList_Size(keys);
    }
    return pair_of(keys, values, is_usual);
}
static PyObject *decode_records(PyObject *Py_UNUSED(m), PyObject *data) { return decode(data, 0); }
static PyObject *decode_index(PyObject *Py_UNUSED(m), PyObject *data) { return decode(data, 1); }

/* find_value(payload, key): twin `sstable.block.find_value`. */
static PyObject *find_value(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *payload, *key;
    Bytes block, wanted;
    Cursor cursor;
    if (!PyArg_ParseTuple(args, "OO", &payload, &key)) return NULL;
    int are_bytes = view(payload, &block) && view(key, &wanted);
    uint32_t low = 0, high = are_bytes ? enter(&cursor, block) : 0;
    if (!high--) return Py_NewRef(Py_NotImplemented);
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2, offset = u32(cursor.end + 4 * (size_t)middle);
        enter(&cursor, block);
        cursor.at = offset < cursor.end - block.at ? block.at + offset : cursor.end;
        if (!step(&cursor, 0)) return Py_NewRef(Py_NotImplemented);
        if (compare(cursor.key, cursor.size, wanted) > 0) high = middle - 1; else low = middle;
    }
    enter(&cursor, block);
    if (low) cursor.at += u32(cursor.end + 4 * (Py_ssize_t)low);
    while (cursor.at < cursor.end) {
        if (!step(&cursor, 0)) return Py_NewRef(Py_NotImplemented);
        int order = compare(cursor.key, cursor.size, wanted);
        if (!order) return bytes_of(cursor.value.at, cursor.value.size);
        if (order > 0) break;
    }
    return Py_NewRef(Py_None);
}

/* Find the fields of a message that has no others and these in order; numbers are in `size`. */
static int fields(Bytes message, const char *tags, Bytes *found) {
    const uint8_t *at = message.at, *end = at + message.size;
    for (; *tags; tags++, found++) {
        uint64_t number = 0; /* a missing field is empty */
        if ((at < end && *at == *tags && !(at = take(at + 1, end, &number, 63))) ||
            number > (*tags & 2 ? (uint64_t)(end - at) : PY_SSIZE_T_MAX))
            return 0;
        *found = (Bytes){at, (Py_ssize_t)number};
        if (*tags & 2) at += number;
    }
    return at == end;
}

enum { ROWS = 1 << 15, TEXTS = 4, ROOM = 4 << 20 }; /* path, address, checksum, content type */
typedef struct { int64_t size, seconds; uint32_t ends[TEXTS]; } Row;
typedef struct { Row rows[ROWS]; uint8_t texts[TEXTS][ROOM]; } Area;

/* Find the fields of an entry in the usual form, without metadata, and those of its time. */
static int read_entry(Bytes value, Bytes *found) {
    uint64_t twice;
    const uint8_t *at, *end = value.at + value.size;
    return value.size > DIGEST && value.at[0] == 2 * DIGEST &&
           (at = take(value.at + 1 + DIGEST, end, &twice, 28)) && twice % 2 == 0 &&
           (int64_t)twice / 2 <= end - at &&
           fields((Bytes){at, (Py_ssize_t)twice / 2}, "\x0A\x12\x18\x22\x30\x3A", found) &&
           fields(found[1], "\x08\x10", found + 6);
}

/* columns(payload, area, row, above, last) -> the row after a block's: twin `spark.decode`. */
static PyObject *columns(PyObject *Py_UNUSED(module), PyObject *args) {
    Py_buffer payload, memory;
    Bytes above, last, found[8] = {{NULL, 0}};
    Cursor cursor;
    uint32_t used[TEXTS] = {0};
    int at;
    if (!PyArg_ParseTuple(args, "y*w*iy#y#", &payload, &memory, &at, &above.at, &above.size,
                          &last.at, &last.size))
        return NULL;
    Area *area = memory.buf;
    int is_usual = memory.len == sizeof(Area) && at >= 0 && at <= ROWS &&
                   enter(&cursor, (Bytes){payload.buf, payload.len}) && cursor.at < cursor.end;
    if (is_usual && at) memcpy(used, area->rows[at - 1].ends, sizeof used);
    for (; is_usual && cursor.at < cursor.end; at++) {
        is_usual = at < ROWS && step(&cursor, 0) && compare(cursor.key, cursor.size, above) > 0 &&
                   compare(cursor.key, cursor.size, last) <= 0 && read_entry(cursor.value, found);
        Bytes texts[TEXTS] = {{cursor.key, cursor.size}, found[0], found[3], found[5]};
        for (int i = 0; i < TEXTS && (is_usual &= texts[i].size <= (int64_t)ROOM - used[i]); i++) {
            memcpy(area->texts[i] + used[i], texts[i].at, texts[i].size);
            area->rows[at].ends[i] = used[i] += (uint32_t)texts[i].size;
        }
        if (is_usual) area->rows[at].size = found[2].size, area->rows[at].seconds = found[6].size;
    }
    PyBuffer_Release(&payload), PyBuffer_Release(&memory);
    return is_usual ? PyLong_FromLong(at) : Py_NewRef(Py_None);
}

/* Reduce a value to its identity of 32 or 64 bytes; false if it has another. */
static int identify(Bytes *value) {
    int wide = value->size > 1 && value->at[0] == 0x80 && value->at[1] == 1;
    Py_ssize_t start = 1 + wide, size = (1 + wide) * DIGEST;
    if (value->size < start + size || (!wide && value->at[0] != 2 * DIGEST)) return 0;
    return *value = (Bytes){value->at + start, size}, 1;
}

/* digests(keys, values) -> (digests of the keys, record IDs), each joined: twin
   `committed.values.digests`. */
static PyObject *digests(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *keys, *values;
    if (!PyArg_ParseTuple(args, "OO", &keys, &values)) return NULL;
    if (!PyList_Check(keys) || !PyList_Check(values) || PyList_Size(keys) != PyList_Size(values))
        return Py_NewRef(Py_None);
    Py_ssize_t count = PyList_Size(keys), i = 0;
    PyObject *of_keys = bytes_of(NULL, DIGEST * count), *ids = bytes_of(NULL, DIGEST * count);
    int made = of_keys != NULL && ids != NULL;
    while (made && i < count) {
        uint8_t pairs[LANES][2 * DIGEST], *to[3][LANES];
        Bytes texts[3][LANES];
        int n = 0;
        for (; n < LANES && i < count; n++, i++) {
            if (!view(item_of(keys, i), texts[0] + n) || !view(item_of(values, i), texts[1] + n) ||
                texts[0][n].size > MAX_HASHED || !identify(texts[1] + n))
                return pair_of(of_keys, ids, 0);
            texts[2][n] = (Bytes){pairs[n], 2 * DIGEST};
            to[0][n] = pairs[n], to[1][n] = pairs[n] + DIGEST;
            to[2][n] = (uint8_t *)PyBytes_AsString(ids) + DIGEST * i;
        }
        for (int pass = 0; pass < 3; pass++) hash(n, texts[pass], to[pass]);
        for (Py_ssize_t at = i - n; n--;)
            memcpy(PyBytes_AsString(of_keys) + DIGEST * (at + n), pairs[n], DIGEST);
    }
    return pair_of(of_keys, ids, i == count);
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
    PyObject *in[5], *values;
    if (!PyArg_ParseTuple(args, "OOOOO", in, in + 1, in + 2, in + 3, in + 4)) return NULL;
    for (int i = 0; i < 5; i++)
        if ((i < 4 || in[4] != Py_None) &&
            (!PyList_Check(in[i]) || PyList_Size(in[i]) != PyList_Size(in[0])))
            return Py_NewRef(Py_None);
    values = PyList_New(0);
    for (Py_ssize_t i = 0; values != NULL && i < PyList_Size(in[0]);) {
        uint8_t hashed[LANES][MAX_HASHED], coded[LANES][MAX_HASHED], *digests[LANES];
        Bytes texts[LANES];
        Py_ssize_t sizes[LANES] = {0};
        int rows = 0, n = 0;
        for (; rows < LANES && i < PyList_Size(in[0]); rows++, i++) {
            Bytes address = {NULL, 0}, checksum = address, type = {(const uint8_t *)"", 0};
            uint8_t message[MAX_HASHED], seconds[11] = {0x08};
            int64_t numbers[2] = {0, 0};
            int overflow /* makes it -1 */, usual = view(item_of(in[0], i), &address) &&
                                  view(item_of(in[2], i), &checksum) &&
                                  (in[4] == Py_None || view(item_of(in[4], i), &type));
            for (int k = 0; usual && k < 2; k++) {
                PyObject *number = item_of(in[2 * k + 1], i);
                usual = number != NULL && PyLong_Check(number);
                usual = usual && (numbers[k] = PyLong_AsLongLongAndOverflow(number, &overflow)) > 0;
            }
            /* Texts are in `hashed` with 80 bytes of frames, in `coded` with at most 71 more. */
            usual = usual && address.size + checksum.size + type.size <= MAX_HASHED - 80;
            if (!usual || !address.size || !checksum.size) continue;
            uint8_t *to = frame(hashed[rows], START, sizeof START - 1, numbers[0]);
            to = join(frame(to, "\1\2\10", 3, checksum.size), checksum.at, checksum.size);
            to = frame(frame(to, "\4\2\10", 3, 0), "\1\2\10", 3, type.size);
            to = join(to, type.at, type.size);
            to = join(frame(to, "\1\2\10", 3, address.size), address.at, address.size);
            texts[n] = (Bytes){hashed[rows], to - hashed[rows]};
            digests[n++] = coded[rows] + 1;
            Py_ssize_t seconds_size = put(seconds + 1, (uint64_t)numbers[1]) - seconds;
            to = text(text(message, 0x0A, address), 0x12, (Bytes){seconds, seconds_size});
            to = text(put(join(to, "\x18", 1), (uint64_t)numbers[0]), 0x22, checksum);
            to = join(to, "\x30\2", 2);
            if (type.size) to = text(to, 0x3A, type);
            coded[rows][0] = 2 * DIGEST;
            uint8_t *end = put(coded[rows] + 1 + DIGEST, (uint64_t)(to - message) << 1);
            sizes[rows] = join(end, message, to - message) - coded[rows];
        }
        hash(n, texts, digests);
        for (n = 0; n < rows && values != NULL; n++)
            if (!append(values, sizes[n] ? bytes_of(coded[n], sizes[n]) : Py_NewRef(Py_None)))
                Py_CLEAR(values);
    }
    return values;
}

static PyMethodDef methods[] = {
    {"decode_records", decode_records, METH_O, NULL}, {"columns", columns, METH_VARARGS, NULL},
    {"decode_index", decode_index, METH_O, NULL}, {"find_value", find_value, METH_VARARGS, NULL},
    {"digests", digests, METH_VARARGS, NULL},
    {"encode_external", encode_external, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_core", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0 ||
        PyModule_AddStringConstant(module, "SOURCE", SOURCE) < 0)
        Py_CLEAR(module);
    return module;
}
