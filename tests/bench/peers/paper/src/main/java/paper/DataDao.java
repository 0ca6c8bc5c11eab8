package paper;

import java.util.List;
import org.springframework.jdbc.core.DataClassRowMapper;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Repository;

/** Reads and writes the table for each request. */
@Repository
public class DataDao {
    private static final String COLUMNS = "SELECT data_name, node_name, data_value FROM t_data WHERE data_name = ?";

    private final JdbcTemplate database;
    private final DataClassRowMapper<Datum> rows = new DataClassRowMapper<>(Datum.class);

    public DataDao(JdbcTemplate database) {
        this.database = database;
        database.execute(
                "CREATE TABLE IF NOT EXISTS t_data (data_name VARCHAR(128) NOT NULL, node_name VARCHAR(253) NOT NULL,"
                        + " data_value TEXT NOT NULL, PRIMARY KEY (data_name, node_name))");
    }

    public List<Datum> find(String dataName) {
        return database.query(COLUMNS, rows, dataName);
    }

    public List<Datum> find(String dataName, String nodeName) {
        return database.query(COLUMNS + " AND node_name = ?", rows, dataName, nodeName);
    }

    public void write(Datum datum) {
        database.update(
                "INSERT INTO t_data (data_name, node_name, data_value) VALUES (?, ?, ?)"
                        + " ON DUPLICATE KEY UPDATE data_value = VALUES(data_value)",
                datum.dataName(),
                datum.nodeName(),
                datum.dataValue());
    }
}
