import java.io.BufferedReader;
import java.io.DataOutputStream;
import java.io.BufferedOutputStream;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.RichSinkFunction;
import org.apache.flink.streaming.api.functions.source.SourceFunction;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.Table;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

/**
 * Answers the questions of `trendfold bench peers` with Apache Flink, in this process and with parallelism 1.
 *
 * A request is a line: method semantics queries window_ms events_file answers_file. The reply is `done SECONDS`. The
 * seconds are those of the job itself: from the source's first event to the end of the last operator.
 */
public final class FlinkPeer {
    static final int A = 0, B = 1, C = 2, NOISE = 3;

    /** One event; only numbers, so that Flink passes it on as a plain object. */
    public static class Event {
        public int g;
        public long at;
        public int kind;
        public int x;
    }

    static Event[] events;
    static long windowMs;
    static final AtomicLong started = new AtomicLong(), ended = new AtomicLong();
    /** For each query, the number of matches that begin in a window, by window and key. */
    static final Map<Integer, Map<Long, long[]>> counts = new ConcurrentHashMap<>();

    static void count(Map<Long, long[]> found, long at, int g) {
        found.computeIfAbsent(at / windowMs << 32 | g, ignored -> new long[1])[0]++;
    }

    static void end() {
        long now = System.nanoTime();
        ended.accumulateAndGet(now, Math::max);
    }

    /** Events from memory; the watermark advances at the end of every window. */
    static final class Memory implements SourceFunction<Event> {
        private volatile boolean isRunning = true;

        @Override
        public void run(SourceContext<Event> context) {
            started.set(System.nanoTime());
            long window = 0;
            for (Event event : events) {
                if (!isRunning) return;
                if (event.at / windowMs != window) {
                    window = event.at / windowMs;
                    context.emitWatermark(new Watermark(window * windowMs - 1));
                }
                context.collectWithTimestamp(event, event.at);
            }
        }

        @Override
        public void cancel() {
            isRunning = false;
        }
    }

    static SimpleCondition<Event> is(int kind) {
        return SimpleCondition.of(event -> event.kind == kind);
    }

    static SimpleCondition<Event> starts(int query) {
        return SimpleCondition.of(event -> event.kind == A && event.x != query);
    }

    static Pattern<Event, ?> pattern(String semantics, int query) {
        Pattern<Event, Event> start =
            Pattern.<Event>begin("a", AfterMatchSkipStrategy.noSkip()).where(starts(query));
        Pattern<Event, ?> whole;
        switch (semantics) {
            case "any":
                whole = start.followedByAny("b").where(is(B)).oneOrMore().allowCombinations()
                    .followedByAny("c").where(is(C));
                break;
            case "next":
                whole = start.followedBy("b").where(is(B)).oneOrMore().greedy().followedBy("c").where(is(C));
                break;
            default:
                whole = start.next("b").where(is(B)).oneOrMore().consecutive().next("c").where(is(C));
        }
        return whole.within(java.time.Duration.ofMillis(windowMs / 2));
    }

    static final class CountMatches extends PatternProcessFunction<Event, Integer> {
        private final int query;
        private transient Map<Long, long[]> found;

        CountMatches(int query) {
            this.query = query;
        }

        @Override
        public void open(org.apache.flink.api.common.functions.OpenContext context) {
            found = counts.computeIfAbsent(query, ignored -> new HashMap<>());
        }

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Integer> out) {
            Event first = match.get("a").get(0);
            count(found, first.at, first.g);
        }

        @Override
        public void close() {
            end();
        }
    }

    static final class CountRows extends RichSinkFunction<Row> {
        @Override
        public void invoke(Row row, Context context) {
            Map<Long, long[]> found = counts.computeIfAbsent((Integer) row.getField(0), i -> new HashMap<>());
            count(found, (Long) row.getField(2), (Integer) row.getField(1));
        }

        @Override
        public void close() {
            end();
        }
    }

    static void cep(StreamExecutionEnvironment env, String semantics, int queries) {
        DataStream<Event> source = env.addSource(new Memory()).returns(Event.class);
        DataStream<Event> asked = semantics.equals("next") ? source.filter(event -> event.kind != NOISE) : source;
        DataStream<Event> keyed = asked.keyBy(event -> event.g);
        for (int query = 0; query < queries; query++) {
            CEP.pattern(keyed, pattern(semantics, query)).process(new CountMatches(query)).returns(Integer.class)
                .sinkTo(new org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink<>());
        }
    }

    static void sql(StreamExecutionEnvironment env, String semantics, int queries) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        Schema schema = Schema.newBuilder().columnByMetadata("rowtime", "TIMESTAMP_LTZ(3)")
            .watermark("rowtime", "SOURCE_WATERMARK()").build();
        tables.createTemporaryView("Everything", env.addSource(new Memory()).returns(Event.class), schema);
        String of = semantics.equals("next") ? "(SELECT * FROM Everything WHERE kind <> 3)" : "Everything";
        List<String> parts = new ArrayList<>();
        for (int query = 0; query < queries; query++) {
            parts.add("SELECT " + query + " AS q, g, starting FROM " + of + " MATCH_RECOGNIZE (PARTITION BY g ORDER BY rowtime"
                + " MEASURES A.`at` AS starting ONE ROW PER MATCH AFTER MATCH SKIP TO NEXT ROW PATTERN (A B+ C)"
                + " WITHIN INTERVAL '" + windowMs / 2000 + "' SECOND"
                + " DEFINE A AS A.kind = 0 AND A.x <> " + query + ", B AS B.kind = 1, C AS C.kind = 2)");
        }
        Table all = tables.sqlQuery(String.join(" UNION ALL ", parts));
        tables.toDataStream(all).addSink(new CountRows());
    }

    static double answer(String method, String semantics, int queries) throws Exception {
        // Do not give a job up because the machine is busy or suspended for a while.
        Configuration settings = new Configuration();
        settings.setString("heartbeat.timeout", "3600000");
        StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(1, settings);
        env.getConfig().enableObjectReuse();
        counts.clear();
        ended.set(0);
        if (method.equals("cep")) cep(env, semantics, queries);
        else sql(env, semantics, queries);
        env.execute();
        return (ended.get() - started.get()) / 1e9;
    }

    static Event[] read(Path path) throws Exception {
        LongBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(path)).asLongBuffer();
        Event[] found = new Event[numbers.remaining() / 4];
        for (int i = 0; i < found.length; i++) {
            found[i] = new Event();
            found[i].g = (int) numbers.get();
            found[i].at = numbers.get();
            found[i].kind = (int) numbers.get();
            found[i].x = (int) numbers.get();
        }
        return found;
    }

    static void write(Path path) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(path)))) {
            for (Map.Entry<Integer, Map<Long, long[]>> query : counts.entrySet()) {
                for (Map.Entry<Long, long[]> each : query.getValue().entrySet()) {
                    out.writeLong(query.getKey());
                    out.writeLong(each.getKey() >> 32);
                    out.writeLong(each.getKey() & 0xffffffffL);
                    out.writeLong(each.getValue()[0]);
                }
            }
        }
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split("\t");
            windowMs = Long.parseLong(words[3]);
            events = read(Paths.get(words[4]));
            double seconds = answer(words[0], words[1], Integer.parseInt(words[2]));
            write(Paths.get(words[5]));
            System.out.println("done " + seconds);
            System.out.flush();
        }
        System.exit(0);
    }
}
