package paper;

/** A row of the table t_data. */
public record Datum(String dataName, String nodeName, String dataValue) {}
