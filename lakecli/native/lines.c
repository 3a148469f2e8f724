/* Lines of a listing of objects, made from the values of their entries. */

#include "core.h"

#define DAY 86400

/* Until two days before the end of the year 9999, local times have a year of four digits. */
#define LAST_DAY 2932894

/* Where the columns of a line begin, and their widths. */
#define DATE_COLUMN 16
#define DATE_COLUMN_WIDTH 29
#define SIZE_COLUMN_WIDTH 12
#define GAP 4

/* Longer names of zones, and longer paths, are left to Python. */
#define MAX_ZONE 64
#define MAX_PATH 1024
#define MAX_SIZE 24
#define MAX_HEAD (DATE_COLUMN + DATE_COLUMN_WIDTH + MAX_ZONE + GAP + MAX_SIZE + SIZE_COLUMN_WIDTH + GAP)

static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};

/* Seconds east of UTC, and the name of the zone as a date ends with it. */
typedef struct {
    long long offset;
    char name[MAX_ZONE];
    Py_ssize_t size;
} Zone;

/* The zones of a day since 1970; the second one holds from a time in unix seconds on. */
typedef struct {
    int64_t day;
    long long change;
    Zone zones[2];
} Day;

/* What all lines of a call share. */
typedef struct {
    Py_ssize_t cut;     /* bytes of each path that are not shown */
    PyObject *zones_of; /* the function that returns the zones of a day */
    PyObject *quote;    /* the function that quotes a path */
    Day day;            /* the last one that was asked for */
} Listing;

/* Copy the name of a zone. Return 0, without an error, if it is left to Python. */
static int
read_zone(PyObject *name, Zone *zone)
{
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text == NULL) {
        PyErr_Clear();  /* it is not Unicode */
        return 0;
    }
    if (size > MAX_ZONE || size != PyUnicode_GetLength(name)) {
        return 0;
    }
    memcpy(zone->name, text, (size_t)size);
    zone->size = size;
    return 1;
}

/* Ask for the zones of a day. Return 0 if they are left to Python, or after an error. */
static int
find_day(Listing *listing, int64_t day)
{
    Day *found = &listing->day;
    PyObject *names[2];
    if (found->day == day) {
        return 1;
    }
    found->day = -1;
    PyObject *zones = PyObject_CallFunction(listing->zones_of, "L", (long long)day);
    if (zones == NULL) {
        return 0;
    }
    int is_usual = PyArg_ParseTuple(zones, "(LU)L(LU)", &found->zones[0].offset, &names[0],
                                    &found->change, &found->zones[1].offset, &names[1])
                   && read_zone(names[0], &found->zones[0])
                   && read_zone(names[1], &found->zones[1]);
    Py_DECREF(zones);
    if (is_usual) {
        found->day = day;
    }
    return is_usual;
}

/* Write a number with leading zeros. */
static char *
write_digits(char *to, int64_t number, int width)
{
    for (int at = width - 1; at >= 0; at--) {
        to[at] = (char)('0' + number % 10);
        number /= 10;
    }
    return to + width;
}

/* Write a day since 1970 as a date, by the algorithm of Howard Hinnant: years begin in March. */
static char *
write_day(char *to, int64_t day)
{
    int64_t days = day + 719468;  /* since 1 March of the year 0 */
    int64_t era = days / 146097;
    int64_t of_era = days % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;  /* 0: March */
    to = write_digits(to, era * 400 + year + (month >= 10), 4);
    *to++ = '-';
    to = write_digits(to, month < 10 ? month + 3 : month - 9, 2);
    *to++ = '-';
    return write_digits(to, of_year - (153 * month + 2) / 5 + 1, 2);
}

/* Write a time in unix seconds as a local date. */
static char *
write_date(char *to, const Day *day, int64_t seconds)
{
    const Zone *zone = &day->zones[seconds >= day->change];
    int64_t local = seconds + zone->offset + DAY;  /* a day more is never negative */
    int64_t second = local % DAY;
    to = write_day(to, local / DAY - 1);
    *to++ = ' ';
    to = write_digits(to, second / 3600, 2);
    *to++ = ':';
    to = write_digits(to, second / 60 % 60, 2);
    *to++ = ':';
    to = write_digits(to, second % 60, 2);
    memcpy(to, zone->name, (size_t)zone->size);
    return to + zone->size;
}

/* Write a number of bytes with a unit of SI. Return NULL, with an error, without memory. */
static char *
write_size(char *to, uint64_t size)
{
    double amount = (double)size;
    size_t unit = 0;
    while (amount >= 999.95) {  /* it would be shown as 1000.0 */
        amount /= 1000;
        unit++;
    }
    char *digits = PyOS_double_to_string(amount, 'f', unit > 0, 0, NULL);
    if (digits == NULL) {
        return NULL;
    }
    size_t length = strlen(digits);
    memcpy(to, digits, length);
    PyMem_Free(digits);
    to += length;
    *to++ = ' ';
    length = strlen(units[unit]);
    memcpy(to, units[unit], length);
    return to + length;
}

/* Return whether all bytes of a path are shown as they are. */
static int
is_plain(Bytes path)
{
    for (Py_ssize_t at = 0; at < path.size; at++) {
        uint8_t byte = path.start[at];
        if (byte < 0x20 || byte > 0x7E || byte == '"' || byte == '\\') {
            return 0;
        }
    }
    return path.size <= MAX_PATH;
}

/* Return the line of an object; NULL after an error, or, without one, if it is left to Python. */
static PyObject *
line_of(Listing *listing, Bytes path, const Entry *entry)
{
    char line[MAX_HEAD + MAX_PATH + 1];
    int64_t seconds = (int64_t)entry->seconds;
    if (path.size < listing->cut || seconds / DAY > LAST_DAY || !find_day(listing, seconds / DAY)) {
        return NULL;
    }
    path.start += listing->cut;
    path.size -= listing->cut;
    memset(line, ' ', MAX_HEAD);
    memcpy(line, "object", 6);
    char *end = write_date(line + DATE_COLUMN, &listing->day, seconds);
    char *least = line + DATE_COLUMN + DATE_COLUMN_WIDTH;
    char *size_column = (end > least ? end : least) + GAP;
    end = write_size(size_column, entry->size);
    if (end == NULL) {
        return NULL;
    }
    least = size_column + SIZE_COLUMN_WIDTH;
    end = (end > least ? end : least) + GAP;
    if (is_plain(path)) {
        memcpy(end, path.start, (size_t)path.size);
        return PyUnicode_FromStringAndSize(line, end - line + path.size);
    }
    *end = 0;
    PyObject *shown = PyObject_CallFunction(listing->quote, "y#", path.start, path.size);
    PyObject *made = shown == NULL ? NULL : PyUnicode_FromFormat("%s%U", line, shown);
    Py_XDECREF(shown);
    return made;
}

/* Make the line of an item, and add the object's size to the total. Return NULL after an error, or,
   without one, if it is left to Python. */
static PyObject *
list_item(Listing *listing, PyObject *item, uint64_t *total)
{
    Bytes path;
    Entry entry;
    if (!PyTuple_Check(item) || PyTuple_Size(item) != 2
        || !view_bytes(PyTuple_GetItem(item, 0), &path)
        || !open_entry(PyTuple_GetItem(item, 1), &entry) || !has_texts(&entry)
        || entry.size > UINT64_MAX - *total)
    {
        return NULL;
    }
    PyObject *line = line_of(listing, path, &entry);
    if (line != NULL) {
        *total += entry.size;
    }
    return line;
}

/* list_lines(items, cut, zones_of, quote) -> (lines, total size of their objects); None in place of
   a line that is left to the twin, which is `cli.commands.fs_ls.object_line`. Items are pairs of a
   path and a value. */
PyObject *
list_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    Listing listing;
    PyObject *items;
    uint64_t total = 0;

    if (!PyArg_ParseTuple(args, "O!nOO", &PyList_Type, &items, &listing.cut, &listing.zones_of,
                          &listing.quote))
    {
        return NULL;
    }
    listing.day.day = -1;
    PyObject *lines = PyList_New(0);
    for (Py_ssize_t at = 0; lines != NULL && at < PyList_Size(items); at++) {
        PyObject *item = Py_NewRef(PyList_GetItem(items, at));  /* functions of Python are called */
        PyObject *line = list_item(&listing, item, &total);
        Py_DECREF(item);
        if (line == NULL && PyErr_Occurred() == NULL) {
            line = Py_NewRef(Py_None);
        }
        if (!append_owned(lines, line)) {
            Py_CLEAR(lines);
        }
    }
    return lines == NULL ? NULL : Py_BuildValue("NK", lines, (unsigned long long)total);
}
