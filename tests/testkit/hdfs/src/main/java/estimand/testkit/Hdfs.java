package estimand.testkit;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.server.blockmanagement.DatanodeDescriptor;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * A real HDFS in one process: a NameNode with WebHDFS and some DataNodes, all on ports of 127.0.0.1 that were free.
 *
 * <p>{@code Hdfs FOLDER DATANODES} puts all data into the folder and prints one line of JSON with the addresses. Then
 * each line of its input is a command, {@code stop K}, {@code fail K}, {@code start K}, {@code safemode enter|leave} or
 * {@code quit}, and is answered by one line: {@code {"ok":true}} or {@code {"error":"…"}}. It ends when its input does,
 * and it halts rather than shuts down, because nobody needs the data any more.
 */
public final class Hdfs {
  private static final int HEARTBEAT_SECONDS = 1;
  private static final int RECHECK_MILLIS = 500;
  private static final int SMALLEST_BLOCK_BYTES = 1024;
  private static final long LONG_AGO_MILLIS = -1_000_000_000L;

  private final File folder;
  private final NameNode namenode;
  /** By their numbers less one; null where one is stopped. */
  private final List<DataNode> datanodes = new ArrayList<>();

  private Hdfs(File folder, int count) throws IOException {
    this.folder = folder;
    namenode = startNamenode();
    for (int number = 1; number <= count; number++) {
      datanodes.add(startDatanode(number));
    }
  }

  public static void main(String[] args) throws IOException {
    // Libraries may print whatever they like; the answers have a stream of their own.
    PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err);
    // Several servers in one process measure under the same names.
    DefaultMetricsSystem.setMiniClusterMode(true);
    try {
      Hdfs hdfs = new Hdfs(new File(args[0]), Integer.parseInt(args[1]));
      answers.println(hdfs.addresses());
      hdfs.obey(answers);
    } catch (IOException | RuntimeException failure) {
      failure.printStackTrace();
      Runtime.getRuntime().halt(1);
    }
    Runtime.getRuntime().halt(0);
  }

  private void obey(PrintStream answers) throws IOException {
    BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = commands.readLine(); line != null && !line.equals("quit"); line = commands.readLine()) {
      try {
        run(line.trim().split(" "));
        answers.println("{\"ok\":true}");
      } catch (IOException | RuntimeException failure) {
        answers.println("{\"error\":" + quoted(String.valueOf(failure)) + "}");
      }
    }
  }

  private void run(String[] words) throws IOException {
    switch (words[0]) {
      case "stop" -> stopDatanode(Integer.parseInt(words[1]));
      case "fail" -> failDatanode(Integer.parseInt(words[1]));
      case "start" -> datanodes.set(Integer.parseInt(words[1]) - 1, startDatanode(Integer.parseInt(words[1])));
      case "safemode" -> namenode.getRpcServer().setSafeMode(safeMode(words[1]), false);
      default -> throw new IllegalArgumentException("what is " + words[0] + "?");
    }
  }

  private static SafeModeAction safeMode(String word) {
    return switch (word) {
      case "enter" -> SafeModeAction.SAFEMODE_ENTER;
      case "leave" -> SafeModeAction.SAFEMODE_LEAVE;
      default -> throw new IllegalArgumentException("safemode is entered or left, not " + word);
    };
  }

  private NameNode startNamenode() throws IOException {
    Configuration conf = new Configuration();
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:0");
    conf.set("dfs.namenode.rpc-address", "127.0.0.1:0");
    conf.set("dfs.namenode.http-address", "127.0.0.1:0");
    conf.set("dfs.namenode.name.dir", new File(folder, "name").toURI().toString());
    conf.setInt("dfs.heartbeat.interval", HEARTBEAT_SECONDS);
    conf.setInt("dfs.namenode.heartbeat.recheck-interval", RECHECK_MILLIS);
    conf.setInt("dfs.namenode.fs-limits.min-block-size", SMALLEST_BLOCK_BYTES);
    // The DataNodes' names, node-1 and so on, mean nothing to any resolver.
    conf.setBoolean("dfs.namenode.datanode.registration.ip-hostname-check", false);
    // Two units of data and one of parity: the one policy that three DataNodes are enough for.
    conf.set("dfs.namenode.ec.system.default.policy", "XOR-2-1-1024k");
    // A DataNode that happens to be busy gets its replicas all the same.
    conf.setBoolean("dfs.namenode.redundancy.considerLoad", false);
    // A test that stops a DataNode wants its blocks to stay where they are.
    conf.setInt("dfs.namenode.redundancy.interval.seconds", Integer.MAX_VALUE / 1000);
    // What is written is lost with the process anyhow.
    conf.setBoolean("dfs.namenode.edits.noeditlogchannelflush", true);
    conf.setInt("dfs.namenode.safemode.extension", 0);
    NameNode.format(conf);
    return NameNode.createNameNode(new String[0], conf);
  }

  private DataNode startDatanode(int number) throws IOException {
    Configuration conf = new Configuration();
    InetSocketAddress rpc = namenode.getNameNodeAddress();
    conf.set("fs.defaultFS", "hdfs://127.0.0.1:" + rpc.getPort());
    conf.set("dfs.datanode.hostname", "node-" + number);
    conf.set("dfs.datanode.address", "127.0.0.1:0");
    conf.set("dfs.datanode.http.address", "127.0.0.1:0");
    conf.set("dfs.datanode.ipc.address", "127.0.0.1:0");
    conf.set("dfs.datanode.data.dir", new File(folder, "data-" + number).toURI().toString());
    conf.setInt("dfs.heartbeat.interval", HEARTBEAT_SECONDS);
    conf.setInt("dfs.datanode.scan.period.hours", -1);
    DataNode datanode = DataNode.createDataNode(new String[0], conf);
    while (!datanode.isDatanodeFullyStarted() || !isReady(known(datanode))) {
      pause();
    }
    return datanode;
  }

  /** Whether the NameNode would place a block there. */
  private static boolean isReady(DatanodeDescriptor datanode) {
    return datanode != null && datanode.checkBlockReportReceived() && datanode.getRemaining() > 0;
  }

  private DatanodeDescriptor known(DataNode datanode) {
    return namenode.getNamesystem().getBlockManager().getDatanodeManager().getDatanode(datanode.getDatanodeUuid());
  }

  /** Closes its ports and connections, and leaves it to the NameNode to find out, as the end of its process would. */
  private DataNode failDatanode(int number) {
    DataNode datanode = datanodes.set(number - 1, null);
    datanode.shutdown();
    return datanode;
  }

  /** Returns when the NameNode, too, knows that the DataNode is dead, which by itself would take it long. */
  private void stopDatanode(int number) throws IOException {
    DatanodeDescriptor known = known(failDatanode(number));
    while (known.isAlive()) {
      known.setLastUpdateMonotonic(LONG_AGO_MILLIS);
      pause();
    }
  }

  private static void pause() {
    try {
      Thread.sleep(5);
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  private String addresses() {
    return "{\"rpc\":" + quoted("127.0.0.1:" + namenode.getNameNodeAddress().getPort())
        + ",\"http\":" + quoted("127.0.0.1:" + namenode.getHttpAddress().getPort()) + "}";
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char letter : text.toCharArray()) {
      if (letter < ' ') {
        out.append(String.format("\\u%04x", (int) letter));
      } else {
        out.append(letter == '"' || letter == '\\' ? "\\" : "").append(letter);
      }
    }
    return out.append('"').toString();
  }
}
