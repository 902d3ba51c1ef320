#!/bin/sh
# Copyright The Grapnel Authors.
# SPDX-License-Identifier: Apache-2.0

# Creates a database if none exists, and serves it. Arguments are additional arguments of
# the server.
set -eu

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	initdb --username=postgres --auth=trust --encoding=UTF8 --no-locale
	echo "host all all all trust" >>"$PGDATA/pg_hba.conf"
	if [ -n "${POSTGRES_DB:-}" ]; then
		echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres >/dev/null
	fi
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' "$@"
