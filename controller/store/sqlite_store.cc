#include <sqlite3.h>
#include <sys/stat.h>

#include <filesystem>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "controller/store/store.h"

namespace am::controller {
namespace {

// Version n becomes n + 1 by kMigrations[n]; a file of a released version is never anything else.
constexpr const char* kMigrations[] = {
    R"sql(
      CREATE TABLE jobs (
        id TEXT PRIMARY KEY,
        client_token TEXT UNIQUE,
        terminal INTEGER NOT NULL,
        age INTEGER NOT NULL UNIQUE,
        document TEXT NOT NULL
      ) STRICT;
      CREATE INDEX jobs_live ON jobs (age) WHERE terminal = 0;
      CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        job TEXT NOT NULL,
        t_unix_ns INTEGER NOT NULL,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        json TEXT NOT NULL
      ) STRICT;
      CREATE INDEX events_of_job ON events (job, seq);
      CREATE TABLE nodes (name TEXT PRIMARY KEY, drained INTEGER NOT NULL, reason TEXT NOT NULL) STRICT;
      CREATE TABLE lease (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        owner TEXT NOT NULL,
        until_unix_ns INTEGER NOT NULL
      ) STRICT;
    )sql",
};
constexpr int kSchemaVersion = static_cast<int>(std::size(kMigrations));

struct CloseStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Statement = std::unique_ptr<sqlite3_stmt, CloseStatement>;

class SqliteStore final : public Store {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& path) {
    std::string folder = std::filesystem::path(path).parent_path().string();
    if (!folder.empty()) AM_RETURN_IF_ERROR(MakeDirectories(folder, 0700));
    sqlite3* raw = nullptr;
    int code =
        sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    std::unique_ptr<SqliteStore> store(new SqliteStore(path, raw));
    if (code != SQLITE_OK) return store->Problem("cannot open it");
    chmod(path.c_str(), 0600);
    sqlite3_busy_timeout(raw, 5000);
    AM_RETURN_IF_ERROR(
        store->Execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
                       "PRAGMA foreign_keys = ON;"));
    AM_RETURN_IF_ERROR(store->CheckWhole());
    AM_RETURN_IF_ERROR(store->Migrate());
    return store;
  }

  absl::StatusOr<StoredState> Load() override {
    StoredState state;
    AM_ASSIGN_OR_RETURN(state.jobs, Jobs("WHERE terminal = 0 ORDER BY age", {}));
    AM_ASSIGN_OR_RETURN(Statement nodes, Prepare("SELECT name, drained, reason FROM nodes"));
    AM_RETURN_IF_ERROR(EachRow(nodes, [&](sqlite3_stmt* row) {
      state.nodes.push_back({Text(row, 0), sqlite3_column_int(row, 1) != 0, Text(row, 2)});
    }));
    AM_ASSIGN_OR_RETURN(Statement last, Prepare("SELECT ifnull(max(seq), 0) FROM events"));
    AM_RETURN_IF_ERROR(
        EachRow(last, [&](sqlite3_stmt* row) { state.last_seq = sqlite3_column_int64(row, 0); }));
    return state;
  }

  absl::Status Commit(const Changes& changes) override {
    return InTransaction([&]() -> absl::Status {
      for (const StoredJob& job : changes.jobs) {
        AM_RETURN_IF_ERROR(
            Write("INSERT INTO jobs VALUES (?1, nullif(?2, ''), ?3, "
                  "(SELECT ifnull(max(age), 0) + 1 FROM jobs), ?4) ON CONFLICT (id) DO UPDATE SET "
                  "terminal = excluded.terminal, document = excluded.document",
                  {job.id, job.client_token, int64_t{job.terminal}, job.document}));
      }
      for (const StoredEvent& event : changes.events) {
        AM_RETURN_IF_ERROR(
            Write("INSERT INTO events (job, t_unix_ns, kind, text, json) VALUES (?, ?, ?, ?, ?)",
                  {event.job, event.t_unix_ns, event.kind, event.text, event.json}));
      }
      for (const StoredNode& node : changes.nodes) {
        AM_RETURN_IF_ERROR(Write("INSERT OR REPLACE INTO nodes VALUES (?, ?, ?)",
                                 {node.name, int64_t{node.drained}, node.reason}));
      }
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::optional<StoredJob>> Find(const std::string& id) override {
    return One("WHERE id = ?", {id});
  }

  absl::StatusOr<std::optional<StoredJob>> FindByToken(const std::string& token) override {
    return One("WHERE client_token = ?", {token});
  }

  absl::StatusOr<std::vector<StoredJob>> Ended(int64_t limit) override {
    return Jobs("WHERE terminal = 1 ORDER BY age DESC LIMIT ?", {limit});
  }

  absl::StatusOr<std::vector<StoredEvent>> Events(const std::string& job, int64_t after_seq,
                                                  int64_t limit) override {
    std::vector<StoredEvent> events;
    AM_ASSIGN_OR_RETURN(Statement select,
                        Prepare("SELECT seq, job, t_unix_ns, kind, text, json FROM events WHERE "
                                "(?1 = '' OR job = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3",
                                {job, after_seq, limit}));
    AM_RETURN_IF_ERROR(EachRow(select, [&](sqlite3_stmt* row) {
      events.push_back({.seq = sqlite3_column_int64(row, 0),
                        .job = Text(row, 1),
                        .t_unix_ns = sqlite3_column_int64(row, 2),
                        .kind = Text(row, 3),
                        .text = Text(row, 4),
                        .json = Text(row, 5)});
    }));
    return events;
  }

  absl::StatusOr<bool> HoldLease(const std::string& owner, int64_t now_unix_ns,
                                 int64_t ttl_ns) override {
    bool held = false;
    AM_RETURN_IF_ERROR(InTransaction([&]() -> absl::Status {
      AM_RETURN_IF_ERROR(
          Write("INSERT INTO lease VALUES (1, ?1, ?2) ON CONFLICT (one) DO UPDATE SET "
                "owner = ?1, until_unix_ns = ?2 WHERE owner = ?1 OR until_unix_ns <= ?3",
                {owner, now_unix_ns + ttl_ns, now_unix_ns}));
      held = sqlite3_changes(database_.get()) > 0;
      return absl::OkStatus();
    }));
    return held;
  }

 private:
  using Parameter = std::variant<std::string, int64_t>;

  SqliteStore(std::string path, sqlite3* database) : path_(std::move(path)), database_(database) {}

  absl::Status Problem(const std::string& what) const {
    int code = sqlite3_errcode(database_.get()) & 0xff;
    std::string message = absl::StrCat(path_, ": ", what, ": ", sqlite3_errmsg(database_.get()));
    switch (code) {
      case SQLITE_FULL:
        return absl::ResourceExhaustedError(absl::StrCat(message, "; free some space"));
      case SQLITE_CORRUPT:
      case SQLITE_NOTADB:
        return absl::DataLossError(absl::StrCat(
            message, "; move the file away to begin with an empty one, or restore a copy"));
      case SQLITE_BUSY:
      case SQLITE_LOCKED:
        return absl::UnavailableError(absl::StrCat(message, "; another process is writing"));
      case SQLITE_CANTOPEN:
      case SQLITE_PERM:
      case SQLITE_READONLY:
        return absl::PermissionDeniedError(message);
      default:
        return absl::InternalError(message);
    }
  }

  absl::Status Execute(const char* sql) {
    return sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) == SQLITE_OK
               ? absl::OkStatus()
               : Problem("cannot write");
  }

  absl::StatusOr<Statement> Prepare(const char* sql, std::vector<Parameter> parameters = {}) {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), sql, -1, &raw, nullptr) != SQLITE_OK) {
      return Problem("cannot read");
    }
    Statement statement(raw);
    for (size_t i = 0; i < parameters.size(); ++i) {
      int at = static_cast<int>(i) + 1;
      if (const auto* text = std::get_if<std::string>(&parameters[i])) {
        sqlite3_bind_text64(raw, at, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
      } else {
        sqlite3_bind_int64(raw, at, std::get<int64_t>(parameters[i]));
      }
    }
    return statement;
  }

  template <typename Callback>
  absl::Status EachRow(const Statement& statement, Callback&& callback) {
    int code;
    while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) callback(statement.get());
    return code == SQLITE_DONE ? absl::OkStatus() : Problem("cannot read or write");
  }

  absl::Status Write(const char* sql, std::vector<Parameter> parameters) {
    AM_ASSIGN_OR_RETURN(Statement statement, Prepare(sql, std::move(parameters)));
    return EachRow(statement, [](sqlite3_stmt*) {});
  }

  template <typename Body>
  absl::Status InTransaction(Body&& body) {
    AM_RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
    absl::Status status = body();
    if (status.ok()) status = Execute("COMMIT");
    // A full disk may have rolled it back already.
    if (!status.ok() && sqlite3_get_autocommit(database_.get()) == 0) {
      Execute("ROLLBACK").IgnoreError();
    }
    return status;
  }

  absl::StatusOr<std::vector<StoredJob>> Jobs(const char* where,
                                              std::vector<Parameter> parameters) {
    std::vector<StoredJob> jobs;
    std::string sql =
        absl::StrCat("SELECT id, ifnull(client_token, ''), terminal, document FROM jobs ", where);
    AM_ASSIGN_OR_RETURN(Statement select, Prepare(sql.c_str(), std::move(parameters)));
    AM_RETURN_IF_ERROR(EachRow(select, [&](sqlite3_stmt* row) {
      jobs.push_back({Text(row, 0), Text(row, 1), sqlite3_column_int(row, 2) != 0, Text(row, 3)});
    }));
    return jobs;
  }

  absl::StatusOr<std::optional<StoredJob>> One(const char* where,
                                               std::vector<Parameter> parameters) {
    AM_ASSIGN_OR_RETURN(std::vector<StoredJob> jobs, Jobs(where, std::move(parameters)));
    if (jobs.empty()) return std::nullopt;
    return std::move(jobs.front());
  }

  static std::string Text(sqlite3_stmt* row, int column) {
    const void* bytes = sqlite3_column_blob(row, column);
    return bytes == nullptr ? ""
                            : std::string(static_cast<const char*>(bytes),
                                          static_cast<size_t>(sqlite3_column_bytes(row, column)));
  }

  absl::Status CheckWhole() {
    AM_ASSIGN_OR_RETURN(Statement check, Prepare("PRAGMA quick_check(1)"));
    std::string verdict;
    AM_RETURN_IF_ERROR(EachRow(check, [&](sqlite3_stmt* row) { verdict = Text(row, 0); }));
    if (verdict == "ok") return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(path_, ": is damaged: ", verdict,
                     "; move the file away to begin with an empty one, or restore a copy"));
  }

  absl::Status Migrate() {
    int version = 0;
    AM_ASSIGN_OR_RETURN(Statement read, Prepare("PRAGMA user_version"));
    AM_RETURN_IF_ERROR(
        EachRow(read, [&](sqlite3_stmt* row) { version = sqlite3_column_int(row, 0); }));
    read.reset();
    if (version > kSchemaVersion) {
      return absl::FailedPreconditionError(
          absl::StrCat(path_, ": was written by a newer controller (schema ", version,
                       ", this one knows ", kSchemaVersion,
                       "); start that one, or use another "
                       "--state-dir"));
    }
    for (; version < kSchemaVersion; ++version) {
      AM_RETURN_IF_ERROR(InTransaction([&]() -> absl::Status {
        AM_RETURN_IF_ERROR(Execute(kMigrations[version]));
        return Execute(absl::StrCat("PRAGMA user_version = ", version + 1).c_str());
      }));
    }
    return absl::OkStatus();
  }

  std::string path_;
  std::unique_ptr<sqlite3, CloseDatabase> database_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> OpenSqliteStore(const std::string& path) {
  return SqliteStore::Open(path);
}

}  // namespace am::controller
