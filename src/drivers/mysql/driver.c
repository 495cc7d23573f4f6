#include "sql_mysql.h"
