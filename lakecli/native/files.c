/* Reading and writing many small files: the GIL is released meanwhile.

   A file is left to the caller, by None in its place, whenever anything about it is unusual: it
   cannot be opened, is no regular file, is larger than asked for, or changes. The caller then does
   the same with one file, and has the error. */

#include "core.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READING (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
#define WRITING (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC)
#define NEW_FILE_MODE 0666

#ifdef __APPLE__
#define MODIFIED(status) (status).st_mtimespec
#define CHANGED(status) (status).st_ctimespec
#else
#define MODIFIED(status) (status).st_mtim
#define CHANGED(status) (status).st_ctim
#endif

static long long
in_nanoseconds(struct timespec time)
{
    return (long long)time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Let `view` show an item of a list. Return 0, without an error, if it is not a file name: bytes
   without NUL. */
static int
view_name(PyObject *names, Py_ssize_t at, Bytes *view)
{
    return view_bytes(at < PyList_Size(names) ? PyList_GetItem(names, at) : NULL, view)
           && memchr(view->start, 0, (size_t)view->size) == NULL;
}

/* Read a whole file into memory of `limit` and one more bytes; return whether nothing is unusual. */
static int
read_file(int directory, const char *name, char *to, size_t limit, struct stat *status)
{
    int descriptor = openat(directory, name, READING);
    if (descriptor < 0) {
        return 0;
    }
    struct stat after;
    int is_usual = fstat(descriptor, status) == 0 && S_ISREG(status->st_mode)
                   && (unsigned long long)status->st_size <= limit
                   && read(descriptor, to, (size_t)status->st_size + 1) == status->st_size
                   && fstat(descriptor, &after) == 0 && status->st_size == after.st_size
                   && in_nanoseconds(MODIFIED(*status)) == in_nanoseconds(MODIFIED(after))
                   && in_nanoseconds(CHANGED(*status)) == in_nanoseconds(CHANGED(after));
    close(descriptor);
    return is_usual;
}

/* read_files(directory, names, limit): for each name the bytes and the time of modification in unix
   seconds, or None. */
PyObject *
read_files(PyObject *Py_UNUSED(module), PyObject *args)
{
    int directory;
    PyObject *names;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(args, "iO!n", &directory, &PyList_Type, &names, &limit)) {
        return NULL;
    }
    char *buffer = limit < 0 ? NULL : malloc((size_t)limit + 1);
    PyObject *found = buffer == NULL ? PyErr_NoMemory() : PyList_New(0);
    for (Py_ssize_t at = 0; found != NULL && at < PyList_Size(names); at++) {
        Bytes name;
        struct stat status;
        PyObject *each = NULL;
        if (view_name(names, at, &name)) {
            PyObject *held = Py_NewRef(PyList_GetItem(names, at));
            int is_usual;
            Py_BEGIN_ALLOW_THREADS
            is_usual = read_file(directory, (const char *)name.start, buffer, (size_t)limit,
                                 &status);
            Py_END_ALLOW_THREADS
            Py_DECREF(held);
            if (is_usual) {
                each = Py_BuildValue("(y#L)", buffer, (Py_ssize_t)status.st_size,
                                     (long long)MODIFIED(status).tv_sec);
            }
        }
        if (each == NULL && PyErr_Occurred() == NULL) {
            each = Py_NewRef(Py_None);
        }
        if (!append_owned(found, each) || PyErr_CheckSignals() < 0) {
            Py_CLEAR(found);
        }
    }
    free(buffer);
    return found;
}

/* Write a new file; return whether it is complete. Else it is removed, if this has made it.
   `times` are those of access and modification; NULL: now, and the status is not read. */
static int
write_file(int directory, const char *name, Bytes content, const struct timespec *times,
           struct stat *status)
{
    int descriptor = openat(directory, name, WRITING, NEW_FILE_MODE);
    if (descriptor < 0) {
        return 0;
    }
    int is_complete = write(descriptor, content.start, (size_t)content.size) == content.size
                      && (times == NULL
                          || (futimens(descriptor, times) == 0 && fstat(descriptor, status) == 0));
    is_complete = close(descriptor) == 0 && is_complete;
    if (!is_complete) {
        unlinkat(directory, name, 0);
    }
    return is_complete;
}

/* Read a time in unix seconds. Return 0, without an error, if it is none. */
static int
read_seconds(PyObject *list, Py_ssize_t at, struct timespec times[2])
{
    PyObject *number = at < PyList_Size(list) ? PyList_GetItem(list, at) : NULL;
    int overflow = number == NULL || !PyLong_Check(number);
    long long seconds = overflow ? 0 : PyLong_AsLongLongAndOverflow(number, &overflow);
    times[0].tv_sec = times[1].tv_sec = (time_t)seconds;
    times[0].tv_nsec = times[1].tv_nsec = 0;
    return !overflow && (long long)times[0].tv_sec == seconds;
}

/* write_files(directory, names, contents, seconds or None): for each file None, or that it was
   written: its state, or with None for `seconds`, which are the times of modification, True. */
PyObject *
write_files(PyObject *Py_UNUSED(module), PyObject *args)
{
    int directory;
    PyObject *names, *contents, *seconds;
    if (!PyArg_ParseTuple(args, "iO!O!O", &directory, &PyList_Type, &names, &PyList_Type,
                          &contents, &seconds))
    {
        return NULL;
    }
    int has_times = seconds != Py_None;
    if (has_times && !PyList_Check(seconds)) {
        PyErr_SetString(PyExc_TypeError, "times are a list");
        return NULL;
    }
    PyObject *states = PyList_New(0);
    for (Py_ssize_t at = 0; states != NULL && at < PyList_Size(names); at++) {
        PyObject *body = at < PyList_Size(contents) ? PyList_GetItem(contents, at) : NULL;
        Bytes name, content;
        struct timespec times[2];
        struct stat status;
        int is_written = view_name(names, at, &name) && view_bytes(body, &content)
                         && (!has_times || read_seconds(seconds, at, times));
        if (is_written) {
            PyObject *held = Py_NewRef(PyList_GetItem(names, at));
            Py_INCREF(body);
            Py_BEGIN_ALLOW_THREADS
            is_written = write_file(directory, (const char *)name.start, content,
                                    has_times ? times : NULL, &status);
            Py_END_ALLOW_THREADS
            Py_DECREF(body);
            Py_DECREF(held);
        }
        PyObject *state = is_written && has_times
            ? Py_BuildValue("(KLLL)", (unsigned long long)status.st_ino, (long long)status.st_size,
                            in_nanoseconds(MODIFIED(status)), in_nanoseconds(CHANGED(status)))
            : Py_NewRef(is_written ? Py_True : Py_None);
        if (!append_owned(states, state)) {
            Py_CLEAR(states);
        }
    }
    return states;
}
