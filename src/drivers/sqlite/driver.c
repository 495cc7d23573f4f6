#include "sql_sqlite.h"
