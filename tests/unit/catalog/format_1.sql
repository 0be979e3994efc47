-- A catalog of format 1. Never change it: it stands for those that are out there.
BEGIN TRANSACTION;
CREATE TABLE batches (
	view_key TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	operation TEXT NOT NULL, 
	version BIGINT, 
	from_vector JSON NOT NULL, 
	to_vector JSON NOT NULL, 
	has_rows BOOLEAN NOT NULL, 
	published_at BIGINT NOT NULL, 
	PRIMARY KEY (view_key, number), 
	FOREIGN KEY(view_key) REFERENCES views ("key")
);
INSERT INTO "batches" VALUES('big_sales',1,'refresh',7,'{"Sales": 0}','{"Sales": 1}',1,1794994200123457);
CREATE TABLE intents (
	view_key TEXT NOT NULL, 
	number BIGINT NOT NULL, 
	epoch BIGINT NOT NULL, 
	operation TEXT NOT NULL, 
	from_state JSON NOT NULL, 
	to_state JSON NOT NULL, 
	started_at BIGINT NOT NULL, 
	PRIMARY KEY (view_key), 
	FOREIGN KEY(view_key) REFERENCES views ("key")
);
INSERT INTO "intents" VALUES('big_sales',2,1,'refresh','{"Sales": 1}','{"Sales": 2}',1794994200123457);
CREATE TABLE leases (
	resource TEXT NOT NULL, 
	name TEXT NOT NULL, 
	epoch BIGINT NOT NULL, 
	last_number BIGINT NOT NULL, 
	outstanding BIGINT, 
	token TEXT, 
	owner JSON, 
	acquired_at BIGINT, 
	expires_at BIGINT, 
	PRIMARY KEY (resource)
);
INSERT INTO "leases" VALUES('big_sales','Big_Sales',1,2,2,'token','{"host": "host", "boot": "boot", "namespace": "namespace", "processes": [[1, "1"]], "token": "token"}',1794994200123457,1794994210123457);
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "meta" VALUES('format','1');
CREATE TABLE names (
	"key" TEXT NOT NULL, 
	name TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "names" VALUES('sales','Sales','table');
INSERT INTO "names" VALUES('big_sales','Big_Sales','view');
CREATE TABLE refreshes (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	view_key TEXT NOT NULL, 
	"view" TEXT NOT NULL, 
	operation TEXT NOT NULL, 
	strategy TEXT NOT NULL, 
	incremental BOOLEAN NOT NULL, 
	code TEXT NOT NULL, 
	reason TEXT NOT NULL, 
	rows_inserted BIGINT NOT NULL, 
	rows_deleted BIGINT NOT NULL, 
	seconds FLOAT NOT NULL, 
	spark_jobs INTEGER NOT NULL, 
	commits INTEGER NOT NULL, 
	rows_read JSON NOT NULL, 
	from_versions JSON NOT NULL, 
	to_versions JSON NOT NULL, 
	started_at BIGINT NOT NULL, 
	error TEXT
);
INSERT INTO "refreshes" VALUES(1,'big_sales','Big_Sales','refresh','merge',1,'CHEAPER','The change is small.',3,1,0.25,4,1,'{"Sales": 4}','{"Sales": 1}','{"Sales": 2}',1794994200123457,NULL);
CREATE TABLE sources (
	view_key TEXT NOT NULL, 
	source_key TEXT NOT NULL, 
	position INTEGER NOT NULL, 
	PRIMARY KEY (view_key, source_key), 
	FOREIGN KEY(view_key) REFERENCES views ("key"), 
	FOREIGN KEY(source_key) REFERENCES names ("key")
);
INSERT INTO "sources" VALUES('big_sales','sales',0);
CREATE TABLE tables (
	"key" TEXT NOT NULL, 
	name TEXT NOT NULL, 
	location TEXT NOT NULL, 
	identifier TEXT, 
	table_id TEXT NOT NULL, 
	managed BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY ("key"), 
	FOREIGN KEY("key") REFERENCES names ("key")
);
INSERT INTO "tables" VALUES('sales','Sales','/w/tables/Sales',NULL,'id-1',1,1794994200123457);
CREATE TABLE views (
	"key" TEXT NOT NULL, 
	name TEXT NOT NULL, 
	definition JSON NOT NULL, 
	policy TEXT NOT NULL, 
	mode TEXT NOT NULL, 
	location TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	columns JSON NOT NULL, 
	comment TEXT, 
	hidden BOOLEAN NOT NULL, 
	table_id TEXT, 
	unusable_code TEXT, 
	unusable_sentence TEXT, 
	batch BIGINT NOT NULL, 
	version BIGINT, 
	vector JSON NOT NULL, 
	pending_vector JSON NOT NULL, 
	pending_from BIGINT NOT NULL, 
	PRIMARY KEY ("key"), 
	FOREIGN KEY("key") REFERENCES names ("key")
);
INSERT INTO "views" VALUES('big_sales','Big_Sales','{"text": "SELECT ''\u00e4'', 1", "settings": {"ansi": true}, "namespace": ["spark_catalog", "default"]}','LAZY','AUTO','/w/views/Big_Sales',1794994200123457,'[["a", "decimal(10,2)", "how much"], ["__count", "bigint", null]]','it''s big',0,NULL,NULL,NULL,1,7,'{"Sales": 1}','{"Sales": 2}',2);
CREATE INDEX refreshes_by_view ON refreshes (view_key, id);
CREATE INDEX ix_sources_source_key ON sources (source_key);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('refreshes',1);
COMMIT;
