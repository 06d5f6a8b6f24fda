// pgx. It prepares every statement at its first execution and keeps it.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

var sql = map[string]string{
	"bytes as bytea":   "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)",
	"string as text":   "SELECT * FROM payment_idem.ingest($1, $2, $3::text, $4)",
	"bytes, no cast":   "SELECT * FROM payment_idem.ingest($1, $2, $3, $4)",
	"string, no cast":  "SELECT * FROM payment_idem.ingest($1, $2, $3, $4)",
	"string as bytea":  "SELECT * FROM payment_idem.ingest($1, $2, $3::bytea, $4)",
	"bytes in a batch": "SELECT * FROM payment_idem.ingest_batch($1, $2::text[], $3::bytea[], $4::text[])",
}

func ingest(ctx context.Context, connection *pgx.Conn, form, eventID string, payload []byte, signature string) (map[string]interface{}, error) {
	var given interface{} = payload
	if strings.HasPrefix(form, "string") {
		given = string(payload)
	}
	values := []interface{}{os.Getenv("TENANT"), eventID, given, signature}
	if strings.HasSuffix(form, "batch") {
		values = []interface{}{os.Getenv("TENANT"), []string{eventID}, [][]byte{payload}, []string{signature}}
	}
	rows, err := connection.Query(ctx, sql[form], values...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	if !rows.Next() {
		return nil, rows.Err()
	}
	columns, err := rows.Values()
	column := map[string]interface{}{}
	for index, value := range columns {
		if value == nil {
			value = ""
		}
		column[string(rows.FieldDescriptions()[index].Name)] = value
	}
	return column, err
}

func answer(column map[string]interface{}, err error) string {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		return "error\t" + refused.Code
	case err != nil:
		return "error\tclient"
	default:
		return fmt.Sprintf("%v\t%v\t%v", column["outcome"], column["reason"], column["payload_sha256"])
	}
}

func run() error {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, "") // PGHOST and its relatives
	if err != nil {
		return err
	}
	defer connection.Close(ctx)
	input := bufio.NewScanner(os.Stdin)
	for input.Scan() {
		fields := strings.Split(input.Text(), "\t")
		if fields[0] == "prepared" {
			var prepared string
			if err := connection.QueryRow(ctx, os.Getenv("PREPARED")).Scan(&prepared); err != nil {
				return err
			}
			fmt.Println(prepared)
			continue
		}
		payload, err := hex.DecodeString(fields[2])
		if err != nil {
			return err
		}
		fmt.Println(answer(ingest(ctx, connection, fields[0], fields[1], payload, fields[3])))
	}
	return input.Err()
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
