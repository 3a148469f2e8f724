package lakecli;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.ref.SoftReference;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.zip.InflaterInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * The files of a table of a repository, which Spark reads by its own readers.
 *
 * <p>{@code file_system.py} puts the files into the options of a reading: their names, which Spark
 * sees as a tree of directories, and the addresses of their objects. An object is opened by another
 * file system of Hadoop where its record has a URI for that, else a process of lakecli reads its
 * pieces, {@code lakecli.engine.object_reader}. No option has a credential.
 *
 * <p>Spark's own compiler, Janino, compiles this. It knows no lambda and no type argument.
 */
public final class TableFileSystem extends FileSystem {
    /** The tables that were read, by the authority of their URI: a digest of all that is in it. */
    private static final Map<String, SoftReference<TreeMap<String, Record>>> TABLES =
        new HashMap<String, SoftReference<TreeMap<String, Record>>>();

    private URI uri;
    private TreeMap<String, Record> files;

    private static final class Record {
        long size;
        long modified;
        String direct;  // a URI that Hadoop opens, or empty
        String object;  // for the process
    }

    @Override public void initialize(URI name, Configuration conf) throws IOException {
        super.initialize(name, conf);
        this.uri = URI.create(name.getScheme() + "://" + name.getAuthority());
        synchronized (TABLES) {
            SoftReference known = (SoftReference) TABLES.get(name.getAuthority());
            this.files = known == null ? null : (TreeMap<String, Record>) known.get();
            if (this.files == null) {
                this.files = parse(conf.getRaw("fs.lakecli.files"));
                TABLES.put(name.getAuthority(), new SoftReference(this.files));
            }
        }
    }

    private static TreeMap<String, Record> parse(String text) throws IOException {
        byte[] packed = Base64.getDecoder().decode(text);
        byte[] raw = new InflaterInputStream(new ByteArrayInputStream(packed)).readAllBytes();
        String[] fields = new String(raw, StandardCharsets.UTF_8).split("\0", -1);
        TreeMap<String, Record> files = new TreeMap<String, Record>();
        for (int at = 0; at + 4 < fields.length; at += 5) {
            Record file = new Record();
            file.size = Long.parseLong(fields[at + 1]);
            file.modified = Long.parseLong(fields[at + 2]);
            file.direct = fields[at + 3];
            file.object = fields[at + 4];
            files.put(fields[at], file);
        }
        return files;
    }

    @Override public URI getUri() { return this.uri; }
    @Override public Path getWorkingDirectory() { return new Path(this.uri + "/"); }
    @Override public void setWorkingDirectory(Path path) { }

    private SortedMap<String, Record> below(String directory) {
        String end = directory + "0";  // comes after the slash
        return directory.isEmpty() ? this.files : this.files.subMap(directory + "/", end);
    }

    private String nameOf(Path path) {
        return this.makeQualified(path).toUri().getPath().substring(1);
    }

    private FileStatus find(String name) throws FileNotFoundException {
        Record file = (Record) this.files.get(name);
        Path path = new Path(this.uri.getScheme(), this.uri.getAuthority(), "/" + name);
        if (file == null && !name.isEmpty() && this.below(name).isEmpty()) {
            throw new FileNotFoundException("the table has no such file: " + path);
        }
        return file == null ? new FileStatus(0L, true, 1, 0L, 0L, path)
            : new FileStatus(file.size, false, 1, 128L << 20, file.modified, path);
    }

    @Override public FileStatus getFileStatus(Path path) throws IOException {
        return this.find(this.nameOf(path));
    }
    @Override public FileStatus[] listStatus(Path path) throws IOException {
        String name = this.nameOf(path);
        if (this.find(name).isFile()) {
            return new FileStatus[] {this.find(name)};
        }
        int length = name.isEmpty() ? 0 : name.length() + 1;
        List<FileStatus> found = new ArrayList<FileStatus>();
        String last = "";
        for (Object each : this.below(name).keySet()) {
            int slash = ((String) each).indexOf('/', length);
            String child = slash < 0 ? (String) each : ((String) each).substring(0, slash);
            if (!child.equals(last)) {
                found.add(this.find(child));
            }
            last = child;
        }
        return (FileStatus[]) found.toArray(new FileStatus[0]);
    }

    @Override public FSDataInputStream open(Path path, int bufferSize) throws IOException {
        this.find(this.nameOf(path));
        Record file = (Record) this.files.get(this.nameOf(path));
        if (!file.direct.isEmpty()) {
            String[] parts = file.direct.split("/", 4);
            Path direct = new Path(parts[0].replace(":", ""), parts[2], "/" + parts[3]);
            try {
                return direct.getFileSystem(this.getConf()).open(direct, bufferSize);
            } catch (UnsupportedFileSystemException unsupported) {
                if (file.object.isEmpty()) {
                    throw unsupported;
                }
            }
        }
        return new FSDataInputStream(new Pieces(this.getConf(), file));
    }

    /** An object, of which a process reads pieces: at least what is asked for, more in sequence. */
    private static final class Pieces extends FSInputStream {
        private static final int LEAST = 1 << 18;
        private static final int MOST = 8 << 20;
        private static final int TAIL = 1 << 16;
        private final Configuration conf;
        private final Record file;
        private long position;
        private byte[] piece = new byte[0];
        private long start = -1;
        private int ahead = LEAST;

        Pieces(Configuration conf, Record file) {
            this.conf = conf;
            this.file = file;
        }
        @Override public void seek(long position) throws IOException {
            if (position < 0 || position > this.file.size) {
                throw new EOFException("no such position in a file: " + position);
            }
            this.position = position;
        }
        @Override public long getPos() { return this.position; }
        @Override public boolean seekToNewSource(long position) { return false; }
        @Override public int read() throws IOException {
            byte[] one = new byte[1];
            return this.read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override public int read(byte[] target, int offset, int length) throws IOException {
            if (length == 0 || this.position >= this.file.size) {
                return length == 0 ? 0 : -1;
            }
            if (this.position < this.start || this.position >= this.start + this.piece.length) {
                boolean isNext = this.position == this.start + this.piece.length;
                this.ahead = isNext ? Math.min(2 * this.ahead, MOST) : LEAST;
                // Parquet's footer is read from the end: first its size.
                this.start = Math.min(this.position, Math.max(0, this.file.size - TAIL));
                long least = this.position - this.start + Math.min(length, MOST);
                int count = (int) Math.min(Math.max(least, this.ahead), this.file.size - this.start);
                this.piece = new byte[0];  // also where the read fails
                if (count <= length && this.start == this.position) {  // without a copy
                    Reader.read(this.conf, this.file.object, this.start, target, offset, count);
                    this.position += count;
                    this.start = this.position;
                    return count;
                }
                byte[] read = new byte[count];
                Reader.read(this.conf, this.file.object, this.start, read, 0, count);
                this.piece = read;
            }
            int from = (int) (this.position - this.start);
            int count = Math.min(length, this.piece.length - from);
            System.arraycopy(this.piece, from, target, offset, count);
            this.position += count;
            return count;
        }
    }

    /** A process of lakecli that reads pieces of objects, one at a time. */
    private static final class Reader {
        private static final Deque<Reader> IDLE = new ArrayDeque<Reader>();
        private static String driver;
        private static Map<String, String> variables = new HashMap<String, String>();

        private final Map<String, String> environment = variables;
        private final Process process;
        private final OutputStream requests;
        private final DataInputStream answers;

        Reader(Configuration conf) throws IOException {
            String python = driver == null ? conf.getRaw("fs.lakecli.python") : driver;
            String[] command = {python, "-P", "-m", "lakecli.engine.object_reader"};
            try {
                ProcessBuilder builder = new ProcessBuilder(command);
                builder.environment().putAll(environment);
                this.process = builder.start();
                this.requests = this.process.getOutputStream();
                this.answers = new DataInputStream(this.process.getInputStream());
                String said;
                try {
                    said = this.answers.readUTF();
                } catch (EOFException ended) {
                    said = new String(this.process.getErrorStream().readAllBytes()).trim();
                    said = said.substring(said.lastIndexOf('\n') + 1);
                }
                if (!said.equals(conf.getRaw("fs.lakecli.version"))) {
                    throw new IOException(python + " says " + said);
                }
            } catch (IOException failed) {
                throw new IOException("no Python with lakecli for Spark: " + failed.getMessage()
                    + "\nhint: " + conf.getRaw("fs.lakecli.hint"), failed);
            }
        }

        static void read(Configuration conf, String object, long start, byte[] target, int offset,
                int length) throws IOException {
            String request = "[" + conf.getRaw("fs.lakecli.location") + "," + object + "," + start
                + "," + length + "," + (driver == null) + "]\n";
            while (true) {
                Reader reader;
                synchronized (IDLE) {
                    reader = (Reader) IDLE.poll();
                }
                if (reader != null && reader.environment != variables) {
                    reader.process.destroy();  // as the driver has others by now
                    continue;
                }
                boolean isNew = reader == null;
                reader = isNew ? new Reader(conf) : reader;
                int count;
                byte[] answer;
                try {
                    reader.requests.write(request.getBytes(StandardCharsets.UTF_8));
                    reader.requests.flush();
                    count = reader.answers.readInt();
                    answer = count < 0 ? new byte[-count] : target;
                    reader.answers.readFully(answer, count < 0 ? 0 : offset, Math.abs(count));
                } catch (IOException ended) {  // as it does after a minute without a request
                    reader.process.destroy();
                    if (!isNew) {
                        continue;
                    }
                    throw new IOException("the process that reads for Spark ended", ended);
                }
                synchronized (IDLE) {
                    IDLE.push(reader);
                }
                if (count < 0) {
                    throw new IOException(new String(answer, StandardCharsets.UTF_8));
                }
                return;
            }
        }
    }

    /** Says which Python reads objects in this Java, that of the driver, and its environment. */
    public static void useDriver(String python, Map<String, String> variables) {
        Reader.driver = python;
        if (!Reader.variables.equals(variables)) {
            Reader.variables = new HashMap<String, String>(variables);
        }
    }

    /** Lets the server of Spark Connect that runs this find this class; returns its Python. */
    public static String useServer() throws Exception {
        Class type = Class.forName("org.apache.spark.SparkContext");
        Class[] none = new Class[0];
        Object context = type.getMethod("getOrCreate", none).invoke(null, none);
        Object conf = type.getMethod("hadoopConfiguration", none).invoke(context, none);
        ((Configuration) conf).setClassLoader(TableFileSystem.class.getClassLoader());
        String python = System.getenv("PYSPARK_PYTHON");
        return python == null ? "python3" : python;
    }

    private static UnsupportedOperationException readOnly() {
        return new UnsupportedOperationException("lakecli.spark.write_table writes tables");
    }
    @Override public FSDataOutputStream create(Path path, FsPermission permission, boolean any,
            int bufferSize, short replication, long blockSize, Progressable progress) { throw readOnly(); }
    @Override public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) { throw readOnly(); }
    @Override public boolean rename(Path from, Path to) { throw readOnly(); }
    @Override public boolean delete(Path path, boolean recursive) { throw readOnly(); }
    @Override public boolean mkdirs(Path path, FsPermission permission) { throw readOnly(); }
}
