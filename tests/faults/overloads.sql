-- SPDX-License-Identifier: MIT
--
-- For each function, operator and aggregate in harness.uses one of the same name in the schemas `first` and
-- `public`, for the very types that our statements use it with, and for each type a domain in `types`. It
-- does what that of pg_catalog does, so that the tests' own statements, which find it, go on working; if a
-- statement that is not theirs has called it, a sequence of its own says so. (A sequence keeps that over a
-- rollback.)

CREATE FUNCTION harness.called(number integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    IF position('/* test */' IN current_query()) = 0 THEN
        PERFORM nextval(format('harness.%I', 'call ' || number)::regclass);
    END IF;
END
$$;

CREATE TABLE harness.overloads (number serial, place text, label text);

-- The types that were seen, and those that it is declared with: literals have these.
CREATE VIEW harness.wanted AS
    WITH used AS (
        SELECT DISTINCT u.kind, u.oid, u.result, u.types FROM harness.uses AS u
         WHERE NOT 0 = ANY (u.types)
    ), seen AS (
        SELECT u.kind, p.proname AS name, p.proretset AS is_set, u.result, u.types
          FROM used AS u JOIN pg_catalog.pg_proc AS p ON p.oid = u.oid AND u.kind IN ('f', 'a')
         UNION
        SELECT u.kind, p.proname, p.proretset, p.prorettype,
               ARRAY(SELECT unnest(p.proargtypes::oid[]))
          FROM used AS u JOIN pg_catalog.pg_proc AS p ON p.oid = u.oid AND u.kind IN ('f', 'a')
         UNION
        -- = ANY (array) is an operator on its elements
        SELECT u.kind, o.oprname, false, u.result,
               ARRAY(SELECT CASE WHEN t.typcategory = 'A' AND o.oprright <> t.oid
                                  AND o.oprright <> 'anyarray'::regtype
                                 THEN t.typelem ELSE t.oid END
                       FROM unnest(u.types) WITH ORDINALITY AS a (oid, number)
                       JOIN pg_catalog.pg_type AS t ON t.oid = a.oid
                      ORDER BY a.number)
          FROM used AS u JOIN pg_catalog.pg_operator AS o ON o.oid = u.oid AND u.kind = 'o'
         UNION
        SELECT u.kind, o.oprname, false, o.oprresult, ARRAY[o.oprleft, o.oprright]
          FROM used AS u JOIN pg_catalog.pg_operator AS o ON o.oid = u.oid AND u.kind = 'o'
         UNION
        SELECT u.kind, t.typname, false, t.oid, ARRAY[t.oid]
          FROM used AS u JOIN pg_catalog.pg_type AS t ON t.oid = u.oid AND u.kind = 't'
         WHERE t.typtype = 'b' AND t.typcategory <> 'A'
    )
    SELECT s.* FROM seen AS s
     WHERE NOT EXISTS (SELECT FROM unnest(s.types || s.result) AS a (oid)
                         LEFT JOIN pg_catalog.pg_type AS t ON t.oid = a.oid
                        WHERE t.oid IS NULL
                           OR t.typtype = 'p' AND t.oid <> 'void'::regtype);

-- The statements that make one; @ is the schema.
CREATE FUNCTION harness.sql_of(wanted harness.wanted, number integer) RETURNS text
    LANGUAGE plpgsql AS $$
DECLARE
    arguments text := (SELECT string_agg(format_type(a.oid, NULL), ', ' ORDER BY a.number)
                         FROM unnest(wanted.types) WITH ORDINALITY AS a (oid, number));
    given     text := (SELECT string_agg('$' || a.number, ', ' ORDER BY a.number)
                         FROM unnest(wanted.types) WITH ORDINALITY AS a (oid, number));
    result    text := CASE WHEN wanted.is_set THEN 'SETOF ' ELSE '' END
                      || format_type(wanted.result, NULL);
    call      text := format('pg_catalog.%I(%s)', wanted.name, given);
    work      text := format('%I', wanted.kind || ' ' || number);
BEGIN
    call := CASE
        WHEN wanted.kind = 't' THEN 'RETURN true'
        WHEN wanted.kind = 'o' THEN format('RETURN $1 OPERATOR(pg_catalog.%s) $2', wanted.name)
        WHEN wanted.kind = 'a' AND wanted.name = 'count' THEN 'RETURN $1 OPERATOR(pg_catalog.+) 1'
        WHEN wanted.kind = 'a' AND wanted.name = 'max' THEN 'RETURN greatest($1, $2)'
        WHEN wanted.kind = 'a' THEN 'RETURN $2'
        WHEN wanted.is_set THEN 'RETURN QUERY SELECT ' || call
        WHEN wanted.result = 'void'::regtype THEN 'PERFORM ' || call
        ELSE 'RETURN ' || call END;
    RETURN format('CREATE FUNCTION @.%s(%s) RETURNS %s LANGUAGE plpgsql AS %L; ',
                  CASE wanted.kind WHEN 'f' THEN format('%I', wanted.name) ELSE work END,
                  CASE wanted.kind WHEN 'a' THEN concat_ws(', ', result, arguments)
                                   ELSE arguments END,
                  CASE wanted.kind WHEN 't' THEN 'boolean' ELSE result END,
                  format('BEGIN PERFORM harness.called(%s); %s; END', number, call))
        || CASE wanted.kind
           WHEN 'o' THEN format('CREATE OPERATOR @.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = @.%s)',
                                wanted.name, split_part(arguments, ', ', 1),
                                split_part(arguments, ', ', 2), work)
           WHEN 'a' THEN format('CREATE AGGREGATE @.%I(%s) (SFUNC = @.%s, STYPE = %s%s)', wanted.name,
                                coalesce(arguments, '*'), work, result,
                                CASE wanted.name WHEN 'count' THEN ', INITCOND = 0' ELSE '' END)
           WHEN 't' THEN format('CREATE DOMAIN @.%I AS pg_catalog.%1$I CHECK (@.%s(VALUE))', wanted.name,
                                work)
           ELSE '' END;
END
$$;

DO $$
DECLARE
    chosen text;
    wanted harness.wanted;
    n      integer;
BEGIN
    FOREACH chosen IN ARRAY ARRAY['first', 'public', 'types'] LOOP
        FOR wanted IN SELECT * FROM harness.wanted AS w WHERE (w.kind = 't') = (chosen = 'types') LOOP
            INSERT INTO harness.overloads (place, label)
            VALUES (chosen, format('%s %s %s', wanted.kind, wanted.name, wanted.types::regtype[]))
            RETURNING overloads.number INTO n;
            EXECUTE format('CREATE SEQUENCE harness.%I', 'call ' || n);
            EXECUTE replace(harness.sql_of(wanted, n), '@', chosen);
        END LOOP;
    END LOOP;
END
$$;
