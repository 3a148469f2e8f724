/* What the files of the compiled core share.

   Each function of the module has a twin in Python, with the same answers. What is unusual or
   damaged is left to the twin: the function returns None, or another mark that its comment names,
   and the twin answers or raises. Input may come from a bucket: every length is checked before it
   is used.

   The limited API of Python 3.11 is used, so one build serves all later versions. Only those of
   files.c and lookup.c release the GIL. Two call back into Python: encode_external the hasher,
   list_lines functions for what is unusual in a line. */

#ifndef LAKECLI_CORE_H
#define LAKECLI_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Memory that belongs to another object. */
typedef struct {
    const uint8_t *start;
    Py_ssize_t size;
} Bytes;

/* The fields of a message that were not read yet; NULL after one that is damaged or unusual. */
typedef struct {
    const uint8_t *position;
    const uint8_t *end;
} Fields;

/* An entry, as long as its value lives. */
typedef struct {
    Bytes address;
    Bytes checksum;
    Bytes content_type;
    Fields metadata;   /* its pairs */
    uint64_t size;     /* less than 2 ** 63, as the time is */
    uint64_t seconds;  /* when it was modified, in unix time */
} Entry;

/* Let `view` show the content of a bytes object, as long as the object lives.
   Return 0, without an error, if the object is NULL or of another type. */
int view_bytes(PyObject *object, Bytes *view);

/* Return a new bytes object with a copy of some memory; NULL, with an error, on failure. */
PyObject *new_bytes(const uint8_t *start, Py_ssize_t size);

/* Append an object to a list, and release the caller's reference to it.
   `object` may be NULL after an error. Return 0, with an error, on failure. */
int append_owned(PyObject *list, PyObject *object);

/* Read a number in its shortest form, of at most `bits` bits.
   Return where it ends; NULL if there is none. */
const uint8_t *read_varint(const uint8_t *from, const uint8_t *end, int bits, uint64_t *number);

/* Write a number in the fewest groups of seven bits, at most ten; return where it ends. */
uint8_t *write_varint(uint8_t *to, uint64_t number);

/* Find the fields of an entry in its value. Return 0 if it is damaged or unusual. */
int open_entry(PyObject *value, Entry *entry);

/* Read the texts of the next pair of metadata. Return 0 if it is damaged or unusual. */
int read_pair(Fields *metadata, Bytes *key, Bytes *value);

/* Return whether an address is a URI, not a key below the namespace. */
int has_scheme(Bytes address);

/* Return whether the texts of an entry, and its pairs of metadata, are sound. */
int has_texts(const Entry *entry);

/* Read a number of four bytes, the lowest first. */
uint32_t read_u32(const uint8_t *from);

/* Read a handle: where a block is, and its size. Return 0 if it is damaged or unusual. */
int read_handle(Fields *handles, uint64_t *offset, uint64_t *size);

/* Find the value of a key in the payload of a block of records, or of pairs, or in that of an index
   the two numbers of the first entry whose key is not less. What is found lies in the payload.
   `find_pair` reads the whole block, since its twin decodes it; the others stop at the key.
   Return 1; 0 if there is none; -1 if the block is left to the twin. */
int seek_value(Bytes payload, Bytes key, Bytes *value);
int find_pair(Bytes payload, Bytes key, Bytes *value);
int seek_handle(Bytes payload, Bytes key, uint64_t numbers[2]);

/* Append the keys and the values of a block of records.
   Return 0 after an error, or, without one, if the block is left to the twin. */
int append_records(Bytes payload, PyObject *keys, PyObject *values);

/* The functions of the module. */
PyObject *decode_records(PyObject *module, PyObject *payload);
PyObject *decode_run(PyObject *module, PyObject *args);
PyObject *decode_index(PyObject *module, PyObject *payload);
PyObject *decode_tail(PyObject *module, PyObject *args);
PyObject *decode_pairs(PyObject *module, PyObject *payload);
PyObject *find_handle(PyObject *module, PyObject *args);
PyObject *find_in_file(PyObject *module, PyObject *args);
PyObject *unpack_block(PyObject *module, PyObject *stored);
PyObject *find_value(PyObject *module, PyObject *args);
PyObject *encode_block(PyObject *module, PyObject *args);
PyObject *encode_index_entries(PyObject *module, PyObject *args);
PyObject *encode_external(PyObject *module, PyObject *args);
PyObject *decode_entry(PyObject *module, PyObject *value);
PyObject *find_owned(PyObject *module, PyObject *values);
PyObject *read_files(PyObject *module, PyObject *args);
PyObject *write_files(PyObject *module, PyObject *args);
PyObject *list_lines(PyObject *module, PyObject *args);
PyObject *entry_columns(PyObject *module, PyObject *args);
PyObject *content_objects(PyObject *module, PyObject *args);
PyObject *crc64nvme(PyObject *module, PyObject *args);

#endif
