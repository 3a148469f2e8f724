/* Columns of entries, as Arrow has them in memory; and what a working directory needs of entries. */

#include "core.h"

/* The last second of the year 9999. */
#define LAST_SECOND 253402300799

/* Columns of texts. */
enum { ADDRESS, CHECKSUM, CONTENT_TYPE, KEY, VALUE, TEXT_COLUMNS };

/* Columns of numbers: of all bits, and the position of each entry's first pair of metadata. */
enum { SIZE, SECONDS, NUMBER_COLUMNS };

/* A column of texts: they follow one another in `data`, and begin at `offsets`. */
typedef struct {
    PyObject *offsets;
    PyObject *data;
    int32_t *next_offset;
    uint8_t *start;
    uint64_t size;   /* of all texts */
    uint64_t count;  /* of texts */
    int32_t at;      /* where the next one begins */
} Texts;

typedef struct {
    Bytes namespace;  /* goes before addresses that are no URIs */
    Texts texts[TEXT_COLUMNS];
    PyObject *numbers[NUMBER_COLUMNS];
    PyObject *pairs;
} Columns;

static const Bytes nothing = {(const uint8_t *)"", 0};

static void
count_text(Texts *texts, Bytes before, Bytes text)
{
    texts->size += (uint64_t)before.size + (uint64_t)text.size;
    texts->count++;
}

static void
append_text(Texts *texts, Bytes before, Bytes text)
{
    memcpy(texts->start + texts->at, before.start, (size_t)before.size);
    texts->at += (int32_t)before.size;
    memcpy(texts->start + texts->at, text.start, (size_t)text.size);
    texts->at += (int32_t)text.size;
    *texts->next_offset = texts->at;
    texts->next_offset++;
}

/* Call a function for each text of an entry, and what goes before it. */
static void
pass_texts(Columns *columns, const Entry *entry, void (*take)(Texts *, Bytes, Bytes))
{
    Fields pairs = entry->metadata;
    take(&columns->texts[ADDRESS], has_scheme(entry->address) ? nothing : columns->namespace,
         entry->address);
    take(&columns->texts[CHECKSUM], nothing, entry->checksum);
    take(&columns->texts[CONTENT_TYPE], nothing, entry->content_type);
    while (pairs.position != pairs.end) {
        Bytes key, value;
        read_pair(&pairs, &key, &value);
        take(&columns->texts[KEY], nothing, key);
        take(&columns->texts[VALUE], nothing, value);
    }
}

/* Measure the columns. Return 0, without an error, if they are left to the twin. */
static int
measure(Columns *columns, PyObject *values)
{
    for (Py_ssize_t at = 0; at < PyList_Size(values); at++) {
        Entry entry;
        if (!open_entry(PyList_GetItem(values, at), &entry) || !has_texts(&entry)
            || entry.seconds > LAST_SECOND)
        {
            return 0;
        }
        pass_texts(columns, &entry, count_text);
    }
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        if (columns->texts[column].size > INT32_MAX || columns->texts[column].count >= INT32_MAX) {
            return 0;
        }
    }
    return 1;
}

/* Make room for the columns of `count` entries. Return 0, with an error, without memory. */
static int
allocate(Columns *columns, Py_ssize_t count)
{
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        Texts *texts = &columns->texts[column];
        texts->offsets = PyBytes_FromStringAndSize(NULL, ((Py_ssize_t)texts->count + 1) * 4);
        texts->data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)texts->size);
        if (texts->offsets == NULL || texts->data == NULL) {
            return 0;
        }
        texts->next_offset = (int32_t *)PyBytes_AsString(texts->offsets);
        *texts->next_offset = 0;
        texts->next_offset++;
        texts->start = (uint8_t *)PyBytes_AsString(texts->data);
    }
    for (int column = 0; column < NUMBER_COLUMNS; column++) {
        columns->numbers[column] = PyBytes_FromStringAndSize(NULL, count * 8);
        if (columns->numbers[column] == NULL) {
            return 0;
        }
    }
    columns->pairs = PyBytes_FromStringAndSize(NULL, (count + 1) * 4);
    return columns->pairs != NULL;
}

/* Write the columns. */
static void
fill(Columns *columns, PyObject *values)
{
    uint64_t *sizes = (uint64_t *)PyBytes_AsString(columns->numbers[SIZE]);
    uint64_t *seconds = (uint64_t *)PyBytes_AsString(columns->numbers[SECONDS]);
    int32_t *pairs = (int32_t *)PyBytes_AsString(columns->pairs);
    const Texts *keys = &columns->texts[KEY];
    const int32_t *first_key = keys->next_offset;
    pairs[0] = 0;
    for (Py_ssize_t at = 0; at < PyList_Size(values); at++) {
        Entry entry;
        open_entry(PyList_GetItem(values, at), &entry);
        pass_texts(columns, &entry, append_text);
        sizes[at] = entry.size;
        seconds[at] = entry.seconds;
        pairs[at + 1] = (int32_t)(keys->next_offset - first_key);
    }
}

/* Return the columns, and release them. */
static PyObject *
give(Columns *columns)
{
    const Texts *texts = columns->texts;
    return Py_BuildValue("(NN)N(NN)N(NN)N(NN)(NN)", texts[ADDRESS].offsets, texts[ADDRESS].data,
                         columns->numbers[SIZE], texts[CHECKSUM].offsets, texts[CHECKSUM].data,
                         columns->numbers[SECONDS], texts[CONTENT_TYPE].offsets,
                         texts[CONTENT_TYPE].data, columns->pairs, texts[KEY].offsets,
                         texts[KEY].data, texts[VALUE].offsets, texts[VALUE].data);
}

static void
release(Columns *columns)
{
    for (int column = 0; column < TEXT_COLUMNS; column++) {
        Py_XDECREF(columns->texts[column].offsets);
        Py_XDECREF(columns->texts[column].data);
    }
    for (int column = 0; column < NUMBER_COLUMNS; column++) {
        Py_XDECREF(columns->numbers[column]);
    }
    Py_XDECREF(columns->pairs);
}

/* entry_columns(values, namespace) -> (addresses, sizes, checksums, seconds, content types, pairs, keys,
   values of metadata); None if it is left to the twin, which is
   `exports.entry_columns._one_by_one`. A column of texts is its offsets and its data. Pairs say
   which keys and values are of an entry, as offsets do. The namespace goes before addresses that are
   no URIs. */
PyObject *
entry_columns(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *values, *namespace;
    Columns columns;
    memset(&columns, 0, sizeof(columns));
    if (!PyArg_ParseTuple(args, "O!O", &PyList_Type, &values, &namespace)) {
        return NULL;
    }
    if (!view_bytes(namespace, &columns.namespace) || !measure(&columns, values)) {
        Py_RETURN_NONE;
    }
    if (!allocate(&columns, PyList_Size(values))) {
        release(&columns);
        return NULL;
    }
    fill(&columns, values);
    return give(&columns);
}

/* The size of a content address, as in base/layout.py: data/, two digits of a BLAKE3, a slash, and
   the other digits. */
#define CONTENT_ADDRESS_SIZE 70
#define DIGITS 64

/* The metadata key of a file's own modification time, and the longest such time in digits. */
#define CLIENT_MTIME "::lakefs::client-mtime"
#define MAX_TIME_DIGITS 10

/* The latest time that a file can have, as in base/model.py. */
#define LAST_FILE_TIME 9223372036

/* Read the digest in a content address. Return 0 if the address is another one. */
static int
read_content_address(Bytes address, char digest[DIGITS])
{
    const char *text = (const char *)address.start;
    if (address.size != CONTENT_ADDRESS_SIZE || memcmp(text, "data/", 5) != 0 || text[7] != '/') {
        return 0;
    }
    memcpy(digest, text + 5, 2);
    memcpy(digest + 2, text + 8, DIGITS - 2);
    for (int at = 0; at < DIGITS; at++) {
        int is_digit = digest[at] >= '0' && digest[at] <= '9';
        if (!is_digit && !(digest[at] >= 'a' && digest[at] <= 'f')) {
            return 0;
        }
    }
    return 1;
}

static int
are_equal(Bytes left, Bytes right)
{
    return left.size == right.size && memcmp(left.start, right.start, (size_t)left.size) == 0;
}

/* Read the modification time of the file that an object was uploaded from, else of the object.
   Return 0 if an unusual time is left to the twin, or if the metadata has the key `special`. */
static int
read_file_time(const Entry *entry, Bytes special, uint64_t *seconds)
{
    Bytes key_of_time = {(const uint8_t *)CLIENT_MTIME, sizeof(CLIENT_MTIME) - 1};
    Fields pairs = entry->metadata;
    *seconds = entry->seconds;
    while (pairs.position != pairs.end) {
        Bytes key, text;
        read_pair(&pairs, &key, &text);
        if (are_equal(key, special)) {
            return 0;
        }
        if (!are_equal(key, key_of_time)) {
            continue;
        }
        if (text.size == 0 || text.size > MAX_TIME_DIGITS) {
            return 0;
        }
        *seconds = 0;
        for (Py_ssize_t at = 0; at < text.size; at++) {
            if (text.start[at] < '0' || text.start[at] > '9') {
                return 0;
            }
            *seconds = *seconds * 10 + (uint64_t)(text.start[at] - '0');
        }
    }
    return *seconds <= LAST_FILE_TIME;
}

/* content_objects(values, special) -> for each entry (address, size, digest, seconds); None if it is
   left to the twin, which is `committed.values._content_object`. */
PyObject *
content_objects(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *values, *key;
    Bytes special;
    if (!PyArg_ParseTuple(args, "O!O!", &PyList_Type, &values, &PyBytes_Type, &key)) {
        return NULL;
    }
    view_bytes(key, &special);
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_Size(values); at++) {
        Entry entry;
        uint64_t seconds;
        char digest[DIGITS];
        int is_usual = open_entry(PyList_GetItem(values, at), &entry) && has_texts(&entry)
                       && entry.seconds <= LAST_SECOND
                       && read_content_address(entry.address, digest)
                       && read_file_time(&entry, special, &seconds);
        PyObject *each = is_usual
            ? Py_BuildValue("s#Ks#K", (const char *)entry.address.start, entry.address.size,
                            (unsigned long long)entry.size, digest, (Py_ssize_t)DIGITS,
                            (unsigned long long)seconds)
            : Py_NewRef(Py_None);
        if (!append_owned(found, each)) {
            Py_CLEAR(found);
        }
    }
    return found;
}
