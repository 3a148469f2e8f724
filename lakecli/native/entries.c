/* Decoding entries, and encoding those of external objects and of uploaded files.

   The value of an entry is the digest of a text that identifies it, followed by its message. A
   hasher, which is an object of Python, computes the digest. */

#include "core.h"

/* Objects whose texts are longer, all of them together, are left to the twin. */
#define MAX_TEXTS 1024

/* More than the tags and lengths around the texts, and the numbers, can take. */
#define ROOM_FOR_FRAMES 128

#define BUFFER_SIZE (MAX_TEXTS + ROOM_FOR_FRAMES)

/* The size of an identity, and the byte that announces it. */
#define DIGEST_SIZE 32
#define DIGEST_FRAME (2 * DIGEST_SIZE)

/* The frames of the identifying text, as in identity.py: each has the size of its tag and the kind
   of a field, and is followed by a number of eight bytes, the highest first. */
#define TEXT_FRAME "\1\2\10"
#define NUMBER_FRAME "\2\10"
#define MAP_FRAME "\4\2\10"
#define IDENTITY_START "lakecli:entry:1"

/* Tags of the message's fields, as in committed/values.py. */
#define ADDRESS_TAG 0x0A
#define LAST_MODIFIED_TAG 0x12
#define SIZE_TAG 0x18
#define CHECKSUM_TAG 0x22
#define ADDRESS_TYPE_TAG 0x30
#define CONTENT_TYPE_TAG 0x3A
#define SECONDS_TAG 0x08
#define RELATIVE_ADDRESS 1
#define FULL_ADDRESS 2

/* Tags of a metadata pair, and of the pair's key and value. */
#define METADATA_TAG 0x2A
#define KEY_TAG 0x0A
#define VALUE_TAG 0x12

/* The metadata key of a file's own modification time, which is not part of the identity. */
#define CLIENT_MTIME "::lakefs::client-mtime"

/* An external object, or that of an uploaded file at the content address of its checksum; all of
   its texts and numbers are of a usual size. */
typedef struct {
    Bytes address;
    Bytes checksum;
    Bytes content_type;  /* may be empty */
    int64_t size;
    int64_t seconds;     /* when it was modified, in unix time */
    Bytes file_time;     /* when the file was; empty for an external object */
} External;

/* The columns of the objects: lists of the same length. */
typedef struct {
    PyObject *addresses;
    PyObject *sizes;
    PyObject *checksums;
    PyObject *seconds;
    PyObject *content_types;  /* None: all are empty */
    PyObject *file_times;     /* None: the objects are external */
} Columns;

/* Return an item of a list, borrowed; NULL, without an error, if the list is too short by now. */
static PyObject *
item_of(PyObject *list, Py_ssize_t index)
{
    return index < PyList_Size(list) ? PyList_GetItem(list, index) : NULL;
}

/* Read a number greater than 0 that fits into 64 bits. Return 0, without an error, for others. */
static int
read_number(PyObject *object, int64_t *number)
{
    int overflow;
    if (object == NULL || !PyLong_Check(object)) {
        return 0;
    }
    *number = PyLong_AsLongLongAndOverflow(object, &overflow);  /* -1 if it does not fit */
    return *number > 0;
}

/* Let `view` show an item of a list, or nothing if there is no list but None.
   Return 0, without an error, if the item is unusual. */
static int
view_optional(PyObject *list, Py_ssize_t row, Bytes *view)
{
    view->start = (const uint8_t *)"";
    view->size = 0;
    return list == Py_None || view_bytes(item_of(list, row), view);
}

/* Read a row of the columns. Return 0, without an error, if it is unusual. */
static int
read_external(const Columns *columns, Py_ssize_t row, External *external)
{
    if (!view_bytes(item_of(columns->addresses, row), &external->address)
        || !view_bytes(item_of(columns->checksums, row), &external->checksum)
        || !read_number(item_of(columns->sizes, row), &external->size)
        || !read_number(item_of(columns->seconds, row), &external->seconds)
        || !view_optional(columns->content_types, row, &external->content_type)
        || !view_optional(columns->file_times, row, &external->file_time))
    {
        return 0;
    }
    Py_ssize_t texts_size = external->address.size + external->checksum.size
                            + external->content_type.size + external->file_time.size;
    return external->address.size > 0 && external->checksum.size > 0 && texts_size <= MAX_TEXTS
           && (columns->file_times == Py_None || external->file_time.size > 0);
}

static uint8_t *
write_bytes(uint8_t *to, const void *from, Py_ssize_t size)
{
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* Write a frame and its number. */
static uint8_t *
write_frame(uint8_t *to, const char *frame, int64_t number)
{
    to = write_bytes(to, frame, (Py_ssize_t)strlen(frame));
    for (int shift = 56; shift >= 0; shift -= 8) {
        *to = (uint8_t)((uint64_t)number >> shift);
        to++;
    }
    return to;
}

static uint8_t *
write_framed_text(uint8_t *to, Bytes text)
{
    to = write_frame(to, TEXT_FRAME, text.size);
    return write_bytes(to, text.start, text.size);
}

/* Write the text whose digest identifies an entry; return where it ends. */
static uint8_t *
write_identifying_text(uint8_t *to, const External *external)
{
    Bytes start = {(const uint8_t *)IDENTITY_START, sizeof(IDENTITY_START) - 1};
    to = write_framed_text(to, start);
    to = write_frame(to, NUMBER_FRAME, external->size);
    to = write_framed_text(to, external->checksum);
    to = write_frame(to, MAP_FRAME, 0);  /* no metadata */
    to = write_framed_text(to, external->content_type);
    Bytes none = {start.start, 0};  /* the checksum tells a content address */
    return write_framed_text(to, external->file_time.size > 0 ? none : external->address);
}

static uint8_t *
write_number_field(uint8_t *to, uint8_t tag, int64_t number)
{
    *to = tag;
    return write_varint(to + 1, (uint64_t)number);
}

static uint8_t *
write_text_field(uint8_t *to, uint8_t tag, Bytes text)
{
    to = write_number_field(to, tag, text.size);
    return write_bytes(to, text.start, text.size);
}

/* Write the message of an entry; return where it ends. */
static uint8_t *
write_message(uint8_t *to, const External *external)
{
    uint8_t time_message[11];  /* a tag and a number */
    const uint8_t *time_end = write_number_field(time_message, SECONDS_TAG, external->seconds);
    Bytes time = {time_message, time_end - time_message};

    to = write_text_field(to, ADDRESS_TAG, external->address);
    to = write_text_field(to, LAST_MODIFIED_TAG, time);
    to = write_number_field(to, SIZE_TAG, external->size);
    to = write_text_field(to, CHECKSUM_TAG, external->checksum);
    if (external->file_time.size > 0) {
        Bytes key = {(const uint8_t *)CLIENT_MTIME, sizeof(CLIENT_MTIME) - 1};
        uint8_t pair[BUFFER_SIZE];
        uint8_t *end = write_text_field(pair, KEY_TAG, key);
        Bytes view = {pair, write_text_field(end, VALUE_TAG, external->file_time) - pair};
        to = write_text_field(to, METADATA_TAG, view);
        to = write_number_field(to, ADDRESS_TYPE_TAG, RELATIVE_ADDRESS);
    }
    else {
        to = write_number_field(to, ADDRESS_TYPE_TAG, FULL_ADDRESS);
    }
    if (external->content_type.size > 0) {
        to = write_text_field(to, CONTENT_TYPE_TAG, external->content_type);
    }
    return to;
}

/* The methods of a hasher, as the package blake3 has them. */
typedef struct {
    PyObject *update;
    PyObject *digest;
    PyObject *reset;
} Hasher;

/* Return 0, with an error, if an object has not all of the methods. */
static int
open_hasher(PyObject *object, Hasher *hasher)
{
    hasher->update = PyObject_GetAttrString(object, "update");
    hasher->digest = PyObject_GetAttrString(object, "digest");
    hasher->reset = PyObject_GetAttrString(object, "reset");
    return hasher->update != NULL && hasher->digest != NULL && hasher->reset != NULL;
}

static void
close_hasher(Hasher *hasher)
{
    Py_XDECREF(hasher->update);
    Py_XDECREF(hasher->digest);
    Py_XDECREF(hasher->reset);
}

/* Write the digest of a text, and forget the text; return 0, with an error, on failure. */
static int
write_digest(const Hasher *hasher, const uint8_t *start, Py_ssize_t size, uint8_t *to)
{
    Bytes view = {NULL, 0};
    PyObject *text = new_bytes(start, size);
    PyObject *updated = NULL, *digest = NULL, *emptied = NULL;

    if (text != NULL) {
        updated = PyObject_CallFunctionObjArgs(hasher->update, text, NULL);
    }
    if (updated != NULL) {
        digest = PyObject_CallNoArgs(hasher->digest);
    }
    if (digest != NULL) {
        emptied = PyObject_CallNoArgs(hasher->reset);
    }
    int is_done = emptied != NULL;
    if (is_done && !(view_bytes(digest, &view) && view.size == DIGEST_SIZE)) {
        PyErr_SetString(PyExc_TypeError, "a digest is not of 32 bytes");
        is_done = 0;
    }
    if (is_done) {
        write_bytes(to, view.start, view.size);
    }
    Py_XDECREF(text);
    Py_XDECREF(updated);
    Py_XDECREF(digest);
    Py_XDECREF(emptied);
    return is_done;
}

/* Return the whole value of an entry; NULL, with an error, on failure.
   The hasher runs last, as what `external` shows may be gone afterwards. */
static PyObject *
encode_value(const External *external, const Hasher *hasher)
{
    uint8_t message[BUFFER_SIZE];
    uint8_t text[BUFFER_SIZE];
    uint8_t value[1 + DIGEST_SIZE + BUFFER_SIZE];
    uint8_t *identity = value + 1;

    value[0] = DIGEST_FRAME;
    Py_ssize_t message_size = write_message(message, external) - message;
    uint8_t *end = write_varint(identity + DIGEST_SIZE, (uint64_t)message_size << 1);
    end = write_bytes(end, message, message_size);
    Py_ssize_t text_size = write_identifying_text(text, external) - text;
    return write_digest(hasher, text, text_size, identity) ? new_bytes(value, end - value) : NULL;
}

/* Return whether all columns are lists of the same length. */
static int
are_usual(const Columns *columns)
{
    PyObject *lists[] = {
        columns->addresses,
        columns->sizes,
        columns->checksums,
        columns->seconds,
        columns->content_types == Py_None ? columns->addresses : columns->content_types,
        columns->file_times == Py_None ? columns->addresses : columns->file_times,
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        if (!PyList_Check(lists[i]) || PyList_Size(lists[i]) != PyList_Size(lists[0])) {
            return 0;
        }
    }
    return 1;
}

/* encode_external(hasher, (addresses, sizes, checksums, seconds, content types or None, times of
   files or None)) -> values; empty ones for rows that are left to the twin, which is
   `committed.values._encode_external`; None if all are. */
PyObject *
encode_external(PyObject *Py_UNUSED(module), PyObject *args)
{
    Columns columns;
    Hasher hasher;
    PyObject *object, *lists;

    if (!PyArg_ParseTuple(args, "OO!", &object, &PyTuple_Type, &lists)
        || !PyArg_ParseTuple(lists, "OOOOOO", &columns.addresses, &columns.sizes,
                             &columns.checksums, &columns.seconds, &columns.content_types,
                             &columns.file_times))
    {
        return NULL;
    }
    if (!are_usual(&columns)) {
        Py_RETURN_NONE;
    }
    PyObject *values = PyList_New(0);
    int is_complete = open_hasher(object, &hasher) && values != NULL;
    for (Py_ssize_t row = 0; is_complete && row < PyList_Size(columns.addresses); row++) {
        External external;
        int is_usual = read_external(&columns, row, &external);
        PyObject *value = is_usual ? encode_value(&external, &hasher) : new_bytes(NULL, 0);
        is_complete = append_owned(values, value);
    }
    close_hasher(&hasher);
    if (!is_complete) {
        Py_CLEAR(values);
    }
    return values;
}

/* Lengths inside a message have at most four groups of seven bits, other numbers nine. */
#define LENGTH_BITS 28
#define NUMBER_BITS 63

/* Pass a tag. Return 0 if another one comes next. */
static int
pass_tag(Fields *fields, uint8_t tag)
{
    if (fields->position == NULL || fields->position == fields->end || *fields->position != tag) {
        return 0;
    }
    fields->position++;
    return 1;
}

/* Read a number if it is the next field, else 0. */
static uint64_t
read_number_field(Fields *fields, uint8_t tag)
{
    uint64_t number = 0;
    if (pass_tag(fields, tag)) {
        fields->position = read_varint(fields->position, fields->end, NUMBER_BITS, &number);
    }
    return number;
}

/* Read the bytes of a field if it is the next one, else none. */
static Bytes
read_text_field(Fields *fields, uint8_t tag)
{
    Bytes text = {fields->end, 0};
    uint64_t size = 0;
    if (!pass_tag(fields, tag)) {
        return text;
    }
    const uint8_t *start = read_varint(fields->position, fields->end, LENGTH_BITS, &size);
    if (start == NULL || size > (uint64_t)(fields->end - start)) {
        fields->position = NULL;
        return text;
    }
    text.start = start;
    text.size = (Py_ssize_t)size;
    fields->position = start + size;
    return text;
}

/* Return a message as its fields. */
static Fields
fields_of(Bytes message)
{
    Fields fields = {message.start, message.start + message.size};
    return fields;
}

/* Return whether all fields were read, and none was damaged or unusual. */
static int
is_at_end(const Fields *fields)
{
    return fields->position == fields->end;
}

/* Return a text; NULL, with an error, on failure, or if there was one before. */
static PyObject *
new_text(Bytes text)
{
    return PyErr_Occurred() ? NULL : PyUnicode_DecodeUTF8((const char *)text.start, text.size, NULL);
}

int
read_pair(Fields *metadata, Bytes *key, Bytes *value)
{
    Fields pair = fields_of(read_text_field(metadata, METADATA_TAG));
    *key = read_text_field(&pair, KEY_TAG);
    *value = read_text_field(&pair, VALUE_TAG);
    return is_at_end(&pair);
}

/* Read pairs of metadata. Return a dictionary; NULL after an error, or, without one, if a pair is
   damaged or unusual. */
static PyObject *
new_metadata(Fields pairs)
{
    PyObject *metadata = PyDict_New();
    while (metadata != NULL && pairs.position != pairs.end) {
        Bytes key_text, value_text;
        int is_usual = read_pair(&pairs, &key_text, &value_text);
        PyObject *key = is_usual ? new_text(key_text) : NULL;
        PyObject *value = is_usual ? new_text(value_text) : NULL;
        int is_set = key != NULL && value != NULL && PyDict_SetItem(metadata, key, value) == 0;
        Py_XDECREF(key);
        Py_XDECREF(value);
        if (!is_set) {
            Py_CLEAR(metadata);
        }
    }
    return metadata;
}

/* Put `message` before the first field of a value. Return 0 if the value is damaged or unusual. */
static int
open_message(PyObject *object, Fields *message)
{
    Bytes value;
    uint64_t doubled = 0;

    if (!view_bytes(object, &value) || value.size <= DIGEST_SIZE + 1
        || value.start[0] != DIGEST_FRAME)
    {
        return 0;
    }
    const uint8_t *end = value.start + value.size;
    message->position = read_varint(value.start + 1 + DIGEST_SIZE, end, LENGTH_BITS, &doubled);
    if (message->position == NULL || doubled & 1
        || doubled / 2 > (uint64_t)(end - message->position))
    {
        return 0;
    }
    message->end = message->position + doubled / 2;
    return 1;
}

int
open_entry(PyObject *value, Entry *entry)
{
    Fields fields;
    if (!open_message(value, &fields)) {
        return 0;
    }
    entry->address = read_text_field(&fields, ADDRESS_TAG);
    Fields time = fields_of(read_text_field(&fields, LAST_MODIFIED_TAG));
    entry->seconds = read_number_field(&time, SECONDS_TAG);
    entry->size = read_number_field(&fields, SIZE_TAG);
    entry->checksum = read_text_field(&fields, CHECKSUM_TAG);
    entry->metadata.position = fields.position;
    while (fields.position != NULL && fields.position < fields.end
           && *fields.position == METADATA_TAG)
    {
        read_text_field(&fields, METADATA_TAG);
    }
    entry->metadata.end = fields.position;
    read_number_field(&fields, ADDRESS_TYPE_TAG);
    entry->content_type = read_text_field(&fields, CONTENT_TYPE_TAG);
    return is_at_end(&fields) && is_at_end(&time);
}

/* Return whether bytes are UTF-8. */
static int
is_text(Bytes text)
{
    uint8_t bits = 0;
    for (Py_ssize_t at = 0; at < text.size; at++) {
        bits |= text.start[at];
    }
    if (bits < 0x80) {
        return 1;
    }
    PyObject *decoded = new_text(text);
    Py_XDECREF(decoded);
    PyErr_Clear();
    return decoded != NULL;
}

int
has_texts(const Entry *entry)
{
    Fields pairs = entry->metadata;
    while (pairs.position != pairs.end) {
        Bytes key, value;
        if (!read_pair(&pairs, &key, &value) || !is_text(key) || !is_text(value)) {
            return 0;
        }
    }
    return is_text(entry->address) && is_text(entry->checksum) && is_text(entry->content_type);
}

/* decode_entry(value) -> (address, size, checksum, seconds, content type, metadata); None if it is
   left to the twin, which is `committed.values._decode_any`. The message has its fields in
   ascending order, as lakecli and lakeFS write them. */
PyObject *
decode_entry(PyObject *Py_UNUSED(module), PyObject *value)
{
    Entry entry;
    PyObject *decoded = NULL;
    PyObject *metadata = open_entry(value, &entry) ? new_metadata(entry.metadata) : NULL;

    if (metadata != NULL) {
        decoded = Py_BuildValue("NKNKNN", new_text(entry.address), (unsigned long long)entry.size,
                                new_text(entry.checksum), (unsigned long long)entry.seconds,
                                new_text(entry.content_type), metadata);
    }
    if (decoded == NULL && PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Clear();  /* a text is not UTF-8 */
    }
    return decoded == NULL && PyErr_Occurred() == NULL ? Py_NewRef(Py_None) : decoded;
}

int
has_scheme(Bytes address)
{
    for (Py_ssize_t at = 0; at + 3 <= address.size; at++) {
        if (memcmp(address.start + at, "://", 3) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Return whether an entry is certainly of an external object: its first field is the address, and
   no later one can be. */
static int
is_external(PyObject *value)
{
    Fields message;
    uint8_t before = ADDRESS_TAG;

    if (!open_message(value, &message) || !has_scheme(read_text_field(&message, ADDRESS_TAG))) {
        return 0;
    }
    while (message.position != NULL && message.position < message.end) {
        uint8_t tag = *message.position;
        int is_text = (tag & 7) == 2, is_number = (tag & 7) == 0;
        if (tag < before || tag == ADDRESS_TAG || tag >= 0x80 || !(is_text || is_number)) {
            return 0;
        }
        before = tag;
        if (is_text) {
            read_text_field(&message, tag);
        }
        else {
            read_number_field(&message, tag);
        }
    }
    return message.position != NULL;
}

/* find_owned(values) -> the positions of those that are not certainly of external objects; None if
   `values` is no list. The twin is `committed.values.find_owned` without the core. */
PyObject *
find_owned(PyObject *Py_UNUSED(module), PyObject *values)
{
    if (!PyList_Check(values)) {
        Py_RETURN_NONE;
    }
    PyObject *found = PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_Size(values); at++) {
        if (!is_external(PyList_GetItem(values, at))
            && !append_owned(found, PyLong_FromSsize_t(at)))
        {
            Py_CLEAR(found);
        }
    }
    return found;
}
