/* The module `_core`, and helpers of its functions. */

#include "core.h"

/* As in __init__.py; increase both if the meaning of a function changes. */
#define INTERFACE 17

int
view_bytes(PyObject *object, Bytes *view)
{
    if (object == NULL || !PyBytes_Check(object)) {
        return 0;
    }
    view->start = (const uint8_t *)PyBytes_AsString(object);
    view->size = PyBytes_Size(object);
    return 1;
}

PyObject *
new_bytes(const uint8_t *start, Py_ssize_t size)
{
    return PyBytes_FromStringAndSize((const char *)start, size);
}

int
append_owned(PyObject *list, PyObject *object)
{
    if (object == NULL) {
        return 0;
    }
    int status = PyList_Append(list, object);
    Py_DECREF(object);
    return status == 0;
}

const uint8_t *
read_varint(const uint8_t *from, const uint8_t *end, int bits, uint64_t *number)
{
    uint64_t sum = 0;
    for (int shift = 0; shift < bits && from < end; shift += 7) {
        uint8_t byte = *from;
        from++;
        sum |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (byte == 0 && shift > 0) {
                return NULL;  /* a shorter form has the same value */
            }
            *number = sum;
            return from;
        }
    }
    return NULL;
}

uint8_t *
write_varint(uint8_t *to, uint64_t number)
{
    while (number >= 0x80) {
        *to = (uint8_t)(number | 0x80);
        to++;
        number >>= 7;
    }
    *to = (uint8_t)number;
    return to + 1;
}

static PyMethodDef core_methods[] = {
    {"decode_records", decode_records, METH_O, NULL},
    {"decode_run", decode_run, METH_VARARGS, NULL},
    {"decode_index", decode_index, METH_O, NULL},
    {"decode_pairs", decode_pairs, METH_O, NULL},
    {"decode_tail", decode_tail, METH_VARARGS, NULL},
    {"find_handle", find_handle, METH_VARARGS, NULL},
    {"find_in_file", find_in_file, METH_VARARGS, NULL},
    {"find_value", find_value, METH_VARARGS, NULL},
    {"unpack_block", unpack_block, METH_O, NULL},
    {"encode_block", encode_block, METH_VARARGS, NULL},
    {"encode_index_entries", encode_index_entries, METH_VARARGS, NULL},
    {"encode_external", encode_external, METH_VARARGS, NULL},
    {"decode_entry", decode_entry, METH_O, NULL},
    {"find_owned", find_owned, METH_O, NULL},
    {"read_files", read_files, METH_VARARGS, NULL},
    {"write_files", write_files, METH_VARARGS, NULL},
    {"list_lines", list_lines, METH_VARARGS, NULL},
    {"entry_columns", entry_columns, METH_VARARGS, NULL},
    {"content_objects", content_objects, METH_VARARGS, NULL},
    {"crc64nvme", crc64nvme, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef core_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_size = -1,
    .m_methods = core_methods,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    PyObject *module = PyModule_Create(&core_module);
    if (module == NULL) {
        return NULL;
    }
    /* The compiler's call defines SOURCE, the digest of these files. */
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0
        || PyModule_AddStringConstant(module, "SOURCE", SOURCE) < 0)
    {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
