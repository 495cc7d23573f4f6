#include "sql_postgresql.h"
