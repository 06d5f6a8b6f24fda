//! The install script: the files of `sql/schema`, in the order in which they load.

use pgrx::extension_sql_file;

extension_sql_file!("../sql/schema/install.sql", name = "install", bootstrap);
extension_sql_file!("../sql/schema/types.sql", name = "types", requires = ["install"]);
extension_sql_file!("../sql/schema/tenants.sql", name = "tenants", requires = ["types"]);
extension_sql_file!("../sql/schema/gateways.sql", name = "gateways", requires = ["tenants"]);
extension_sql_file!("../sql/schema/sources.sql", name = "sources", requires = ["gateways"]);
extension_sql_file!("../sql/schema/currencies.sql", name = "currencies", requires = ["sources"]);
extension_sql_file!("../sql/schema/orders.sql", name = "orders", requires = ["currencies"]);
extension_sql_file!("../sql/schema/receipts.sql", name = "receipts", requires = ["orders"]);
extension_sql_file!("../sql/schema/exceptions.sql", name = "exceptions", requires = ["receipts"]);
extension_sql_file!("../sql/schema/ledger.sql", name = "ledger", requires = ["exceptions"]);
extension_sql_file!("../sql/schema/payloads.sql", name = "payloads", requires = ["ledger"]);
extension_sql_file!("../sql/schema/outbox.sql", name = "outbox", requires = ["payloads"]);
extension_sql_file!("../sql/schema/partitions.sql", name = "partitions", requires = ["outbox"]);
extension_sql_file!("../sql/schema/invariants.sql", name = "invariants", requires = ["partitions"]);
extension_sql_file!("../sql/schema/functions.sql", name = "functions", requires = ["invariants"]);
extension_sql_file!("../sql/schema/triggers.sql", name = "triggers", requires = ["functions"]);
extension_sql_file!("../sql/schema/builtin_gateways.sql", name = "builtin_gateways", requires = ["triggers"]);
extension_sql_file!("../sql/schema/dump.sql", name = "dump", requires = ["builtin_gateways"]);
extension_sql_file!("../sql/schema/privileges.sql", name = "privileges", requires = ["dump"], finalize);
