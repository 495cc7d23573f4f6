-- name: acquire
x
