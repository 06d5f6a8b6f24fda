// PostgreSQL's JDBC driver. It prepares a statement on the server at its fifth execution.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;

public class Client {
    static final Map<String, String> SQL = Map.of(
        "bytes as bytea", "SELECT * FROM payment_idem.ingest(?, ?, ?::bytea, ?)",
        "string as text", "SELECT * FROM payment_idem.ingest(?, ?, ?::text, ?)",
        "bytes, no cast", "SELECT * FROM payment_idem.ingest(?, ?, ?, ?)",
        "string, no cast", "SELECT * FROM payment_idem.ingest(?, ?, ?, ?)",
        "string as bytea", "SELECT * FROM payment_idem.ingest(?, ?, ?::bytea, ?)",
        "bytes in a batch", "SELECT * FROM payment_idem.ingest_batch(?, ?::text[], ?::bytea[], ?::text[])");

    public static void main(String[] arguments) throws Exception {
        Map<String, String> environment = System.getenv();
        String url = "jdbc:postgresql://127.0.0.1:" + environment.get("PAYMENT_IDEM_TCP_PORT") + "/" + environment.get("PGDATABASE");
        UUID tenant = UUID.fromString(environment.get("TENANT"));
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (Connection connection = DriverManager.getConnection(url, environment.get("PGUSER"), "")) {
            Map<String, PreparedStatement> statements = new HashMap<>();
            for (String line; (line = input.readLine()) != null; ) {
                String[] fields = line.split("\t");
                String form = fields[0];
                if (form.equals("prepared")) {
                    ResultSet row = connection.createStatement().executeQuery(environment.get("PREPARED"));
                    row.next();
                    System.out.println(row.getString(1));
                    continue;
                }
                byte[] payload = HexFormat.of().parseHex(fields[2]);
                try {
                    if (!statements.containsKey(form)) {
                        statements.put(form, connection.prepareStatement(SQL.get(form)));
                    }
                    PreparedStatement statement = statements.get(form);
                    statement.setObject(1, tenant);
                    if (form.endsWith("batch")) {
                        statement.setArray(2, connection.createArrayOf("text", new Object[] {fields[1]}));
                        statement.setArray(3, connection.createArrayOf("bytea", new byte[][] {payload}));
                        statement.setArray(4, connection.createArrayOf("text", new Object[] {fields[3]}));
                    } else {
                        statement.setString(2, fields[1]);
                        statement.setString(4, fields[3]);
                    }
                    if (form.startsWith("bytes as") || form.startsWith("bytes, ")) {
                        statement.setBytes(3, payload);
                    } else if (form.startsWith("string")) {
                        statement.setString(3, new String(payload, StandardCharsets.UTF_8));
                    }
                    try (ResultSet row = statement.executeQuery()) {
                        row.next();
                        System.out.println(String.join("\t", row.getString("outcome"),
                            Objects.toString(row.getString("reason"), ""), row.getString("payload_sha256")));
                    }
                } catch (SQLException error) {
                    System.out.println("error\t" + error.getSQLState());
                }
            }
        }
    }
}
