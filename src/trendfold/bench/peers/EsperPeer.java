import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;

import java.io.BufferedOutputStream;
import java.io.BufferedReader;
import java.io.DataOutputStream;
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

/**
 * Answers the questions of `trendfold bench peers` with Esper, in this process and on one thread.
 *
 * It is not asked for skip-till-any-match. Requests and replies are those of FlinkPeer. The seconds are those of handing all events to the runtime.
 */
public final class EsperPeer {
    static Object[][] read(Path path) throws Exception {
        LongBuffer numbers = ByteBuffer.wrap(Files.readAllBytes(path)).asLongBuffer();
        Object[][] found = new Object[numbers.remaining() / 4][];
        for (int i = 0; i < found.length; i++) {
            int g = (int) numbers.get();
            long at = numbers.get();
            found[i] = new Object[] {g, at, (int) numbers.get(), (int) numbers.get()};
        }
        return found;
    }

    static String query(String semantics, int number, long span) {
        return "@name('q" + number + "') select * from E" + (semantics.equals("next") ? "(kind != 3)" : "")
            + " match_recognize (partition by g measures A.g as g, A.since as since "
            + "after match skip to next row pattern (A B+ C) define A as A.kind = 0 and A.x != " + number + ", B as B.kind = 1"
            + ", C as C.kind = 2 and C.since - A.since < " + span + ")";
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        int served = 0;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.trim().split("\t");
            long windowMs = Long.parseLong(words[3]);
            Object[][] events = read(Paths.get(words[4]));
            Configuration settings = new Configuration();
            settings.getCommon().addEventType(
                "E", new String[] {"g", "since", "kind", "x"},
                new Object[] {Integer.class, Long.class, Integer.class, Integer.class});
            settings.getRuntime().getThreading().setInternalTimerEnabled(false);
            EPRuntime runtime = EPRuntimeProvider.getRuntime("run" + served++, settings);
            List<Map<Long, long[]>> counts = new ArrayList<>();
            for (int number = 0; number < Integer.parseInt(words[2]); number++) {
                String text = query(words[1], number, windowMs / 2);
                EPCompiled compiled = EPCompilerProvider.getCompiler().compile(text, new CompilerArguments(settings));
                EPStatement statement = runtime.getDeploymentService().deploy(compiled).getStatements()[0];
                Map<Long, long[]> found = new HashMap<>();
                counts.add(found);
                statement.addListener((added, removed, of, by) -> {
                    for (EventBean match : added) {
                        long key = (Long) match.get("since") / windowMs << 32 | (Integer) match.get("g");
                        found.computeIfAbsent(key, ignored -> new long[1])[0]++;
                    }
                });
            }
            EPEventService service = runtime.getEventService();
            long started = System.nanoTime();
            for (Object[] event : events) service.sendEventObjectArray(event, "E");
            double seconds = (System.nanoTime() - started) / 1e9;
            runtime.destroy();
            write(Paths.get(words[5]), counts);
            System.out.println("done " + seconds);
            System.out.flush();
        }
        System.exit(0);
    }

    static void write(Path path, List<Map<Long, long[]>> counts) throws Exception {
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(path)))) {
            for (int query = 0; query < counts.size(); query++) {
                for (Map.Entry<Long, long[]> each : counts.get(query).entrySet()) {
                    out.writeLong(query);
                    out.writeLong(each.getKey() >> 32);
                    out.writeLong(each.getKey() & 0xffffffffL);
                    out.writeLong(each.getValue()[0]);
                }
            }
        }
    }
}
