// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/grapnel-dev/grapnel/hack/release/image"
	"github.com/grapnel-dev/grapnel/test/node/debian"
)

// postgresUser is the number of the user that the database server runs as.
const postgresUser = 999

//go:embed postgres.sh
var postgresScript string

// SavePostgres writes an image with the distribution's PostgreSQL to a file. It makes a
// database where $PGDATA is empty, with $POSTGRES_DB in it if that is set, and then serves
// it on port 5432, as user 999. A volume for it is mounted at /var/lib/postgresql/data. Who
// reaches it is trusted: there is no password. psql, pg_dump and the like are in its PATH;
// its shell is busybox.
func SavePostgres(ctx context.Context, root, file string) error {
	items, err := busyboxItems(ctx)
	if err != nil {
		return err
	}
	dir, remove, err := scratch(root)
	if err != nil {
		return err
	}
	defer remove()
	if err := debian.Unpack(ctx, debian.Request{
		Packages: []string{"postgresql"},
		// Perl is for scripts that configure a server on a real system, LLVM for a
		// compiler of queries that it does without.
		Without: []string{"perl", "libperl", "libllvm", "libz3", "locales", "libc-l10n", "postgresql-common", "postgresql-client-common"},
		Cache:   filepath.Join(root, "bin", "e2e", "packages"),
		Dir:     dir,
	}); err != nil {
		return fmt.Errorf("unpacking PostgreSQL: %w", err)
	}
	programs, err := filepath.Glob(filepath.Join(dir, "usr/lib/postgresql/*/bin"))
	if err != nil {
		return fmt.Errorf("looking for the programs of PostgreSQL: %w", err)
	}
	if len(programs) != 1 {
		return fmt.Errorf("there is not one version of PostgreSQL in the packages, but %q", programs)
	}
	version := filepath.Base(filepath.Dir(programs[0]))
	return postgres(items, dir, version).Save(file)
}

// postgres puts the shell first: what the packages have replaces its commands.
func postgres(items []image.Item, dir, version string) image.Image {
	// The data is one directory below: the directory of a mounted volume has another owner.
	const home = "/var/lib/postgresql"
	user := fmt.Sprintf("%d:%d", postgresUser, postgresUser)
	items = append(items,
		image.Tree{Source: dir},
		image.Data{Path: "/etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/root:/bin/sh\npostgres:x:" + user + ":postgres:" + home + ":/bin/sh\n"},
		image.Data{Path: "/etc/group", Mode: 0o644, Content: "root:x:0:\npostgres:x:" + fmt.Sprint(postgresUser) + ":\n"},
		image.Data{Path: "/usr/local/bin/start-postgres", Mode: 0o755, Content: postgresScript},
		image.Directory{Path: home, Mode: 0o700, Owner: postgresUser},
		image.Directory{Path: home + "/data", Mode: 0o700, Owner: postgresUser},
		image.Directory{Path: "/var/run/postgresql", Mode: 0o777 | fs.ModeSticky},
		image.Directory{Path: "/tmp", Mode: 0o777 | fs.ModeSticky},
	)
	return image.Image{
		Name: PostgresName, User: user, WorkingDir: home,
		Entrypoint: []string{"/usr/local/bin/start-postgres"},
		Env: []string{
			"PATH=" + path.Join("/usr/lib/postgresql", version, "bin") + ":/usr/local/bin:/usr/bin:/bin",
			"PGDATA=" + home + "/data/pgdata", "LC_ALL=C.UTF-8",
		},
		Content: items,
	}
}
