// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/archive"
)

// objectArgument documents the argument of commands that take an object of a backup.
const objectArgument = "KIND/NAMESPACE/NAME, or KIND/NAME for an object without a namespace. KIND is that of the object, or its resource,\n" +
	"for example Secret or deployments.apps."

// newListCommand returns the command that lists what is in a backup.
func (a *app) newListCommand() *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "ls BACKUP", Short: "List the objects in a backup", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.checkFormat(outputTable, outputJSON, outputYAML); err != nil {
				return err
			}
			c, err := a.connectToBackup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.withFile(cmd.Context(), v1alpha1.DownloadBackupResourceList, args[0], false, func(file io.Reader) error {
				if output.format != outputTable {
					return a.copyJSON(file, output)
				}
				return a.printResourceList(file)
			})
		},
	}
	output.bindFlags(command, outputTable, "output format: table, json or yaml")
	return command
}

// resourceList has the names of the objects of a backup, as "namespace/name" or "name", by kind, as in
// "apps/v1/Deployment".
type resourceList map[string][]string

func readResourceList(file io.Reader) (resourceList, error) {
	var list resourceList
	if err := json.NewDecoder(file).Decode(&list); err != nil {
		return nil, fmt.Errorf("reading the list of objects: %w", err)
	}
	return list, nil
}

func (a *app) printResourceList(file io.Reader) error {
	list, err := readResourceList(file)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(list)) {
		for _, name := range list[kind] {
			if err := a.out.printf("%s %s\n", kind, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectReference is an object that a user names.
type objectReference struct{ kind, namespace, name string }

// parseObjectReference parses KIND/NAMESPACE/NAME or KIND/NAME.
func parseObjectReference(argument string) (objectReference, error) {
	parts := strings.Split(argument, "/")
	if slices.Contains(parts, "") || len(parts) < 2 || len(parts) > 3 {
		return objectReference{}, fmt.Errorf("%q is not an object: write %s", argument, objectArgument)
	}
	ref := objectReference{kind: parts[0], name: parts[len(parts)-1]}
	if len(parts) == 3 {
		ref.namespace = parts[1]
	}
	return ref, nil
}

// listName is the name of the object in a resourceList.
func (o objectReference) listName() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// matchesKind reports whether the reference is to a kind or to its resource, as in "pods" or "deployments.apps". It
// compares without a mapping of the cluster, which may not have the kind: for an irregular plural, the user
// writes the resource or the kind.
func (o objectReference) matchesKind(kind, resource, group string) bool {
	wanted, wantedGroup, hasGroup := strings.Cut(strings.ToLower(o.kind), ".")
	if hasGroup && wantedGroup != group {
		return false
	}
	kind = strings.ToLower(kind)
	if resource == "" {
		return wanted == kind || wanted == kind+"s" || wanted == kind+"es" || wanted == strings.TrimSuffix(kind, "y")+"ies"
	}
	return wanted == resource || wanted+"s" == resource || wanted+"es" == resource || strings.TrimSuffix(wanted, "y")+"ies" == resource
}

// isIn reports whether a list has the object.
func (o objectReference) isIn(list resourceList) bool {
	for key, names := range list {
		parts := strings.Split(key, "/") // v1/Pod or apps/v1/Deployment
		group := ""
		if len(parts) == 3 {
			group = parts[0]
		}
		if o.matchesKind(parts[len(parts)-1], "", group) && slices.Contains(names, o.listName()) {
			return true
		}
	}
	return false
}

// newFindCommand returns the command that finds the backups of an object.
func (a *app) newFindCommand() *cobra.Command {
	return &cobra.Command{
		Use: "find KIND/NAMESPACE/NAME", Short: "List the backups that have an object", Args: cobra.ExactArgs(1),
		Long: "List the backups that have an object, the newest first.\n\nAn object is " + objectArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseObjectReference(args[0])
			if err != nil {
				return err
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			return a.findObject(cmd.Context(), c, wanted)
		},
	}
}

// findObject prints the backups that have an object.
func (a *app) findObject(ctx context.Context, c *connection, wanted objectReference) error {
	var list v1alpha1.BackupList
	if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	candidates := slices.DeleteFunc(list.Items, func(b v1alpha1.Backup) bool {
		return b.Status.Phase != v1alpha1.RunPhaseCompleted && b.Status.Phase != v1alpha1.RunPhasePartiallyFailed
	})
	slices.SortFunc(candidates, func(x, y v1alpha1.Backup) int { return backupTime(&y).Compare(backupTime(&x).Time) })
	found, unread := make([]bool, len(candidates)), []error(nil)
	var mu sync.Mutex
	const parallelDownloads = 4
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(parallelDownloads)
	for i := range candidates {
		readers.Go(func() error {
			err := c.withFile(ctx, v1alpha1.DownloadBackupResourceList, candidates[i].Name, false, func(file io.Reader) error {
				names, err := readResourceList(file)
				found[i] = err == nil && wanted.isIn(names)
				return err
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				unread = append(unread, fmt.Errorf("backup %s could not be searched: %w", candidates[i].Name, err))
			}
			return ctx.Err()
		})
	}
	if err := readers.Wait(); err != nil {
		return err
	}
	for i := range candidates {
		if !found[i] {
			continue
		}
		b := &candidates[i]
		if err := a.out.printf("%s  %s  %s\n", backupTime(b).UTC().Format("2006-01-02 15:04:05Z"), b.Status.Phase, b.Name); err != nil {
			return err
		}
	}
	if len(unread) == 0 && !slices.Contains(found, true) {
		return fmt.Errorf("none of %d backups has %s", len(candidates), wanted.kind+"/"+wanted.listName())
	}
	return errors.Join(unread...)
}

// newCatCommand returns the command that prints an object of a backup.
func (a *app) newCatCommand() *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "cat BACKUP KIND/NAMESPACE/NAME", Short: "Print an object of a backup", Args: cobra.ExactArgs(2),
		Long: "Print an object of a backup, as it was archived.\n\nAn object is " + objectArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseObjectReference(args[1])
			if err != nil {
				return err
			}
			c, err := a.connectToBackup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return c.withFile(cmd.Context(), v1alpha1.DownloadBackupContents, args[0], false, func(file io.Reader) error {
				return a.printArchivedObject(file, wanted, output)
			})
		},
	}
	output.bindFlags(command, outputYAML, "output format: yaml or json")
	return command
}

// errFound ends the walk through an archive.
var errFound = errors.New("found")

// printArchivedObject prints an object of an archive, without its managedFields, which only tools read.
func (a *app) printArchivedObject(file io.Reader, wanted objectReference, output outputFlag) error {
	var content []byte
	err := archive.Walk(file, archive.Limits{}, func(entry archive.Entry) error {
		id := entry.Object
		if !entry.IsObject() || id.Namespace != wanted.namespace || id.Name != wanted.name || !wanted.matchesKind("", id.Resource, id.Group) {
			return nil
		}
		content = slices.Clone(entry.Content)
		return errFound // the first one is the version that the API server preferred
	})
	switch {
	case err == nil:
		return fmt.Errorf("the backup has no %s", wanted.kind+"/"+wanted.listName())
	case !errors.Is(err, errFound):
		return err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		return fmt.Errorf("reading the object: %w", err)
	}
	return a.printObject(object, output)
}

// newDownloadCommand returns the command that downloads an archive.
func (a *app) newDownloadCommand() *cobra.Command {
	var path string
	var overwrite bool
	command := &cobra.Command{
		Use: "download BACKUP", Short: "Download the archive of a backup", Args: cobra.ExactArgs(1),
		Long: "Download the archive of a backup, a compressed tarball. It has the content of all Secrets of the backup.",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.connectToBackup(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if path == "" {
				path = args[0] + ".tar.gz"
			}
			if err := checkOverwrite(path, overwrite); err != nil {
				return err
			}
			return c.withFile(cmd.Context(), v1alpha1.DownloadBackupContents, args[0], false, func(file io.Reader) error {
				size, err := saveFile(path, file)
				if err != nil {
					return err
				}
				return a.out.printf("%s: %d bytes\n", path, size)
			})
		},
	}
	command.Flags().StringVarP(&path, "output", "o", "", "path of the file (default BACKUP.tar.gz)")
	command.Flags().BoolVar(&overwrite, "force", false, "overwrite an existing file")
	return command
}

// checkOverwrite returns an error if a file exists and must not be overwritten.
func checkOverwrite(path string, overwrite bool) error {
	if _, err := os.Lstat(path); err == nil && !overwrite {
		return fmt.Errorf("%s exists; set --force to overwrite it", path)
	}
	return nil
}

// saveFile writes content to a file; see writeFile.
func saveFile(path string, content io.Reader) (size int64, err error) {
	err = writeFile(path, func(w io.Writer) (err error) {
		size, err = io.Copy(w, content)
		return err
	})
	return size, err
}

// writeFile writes a file that only its owner can read. The file has its name only when it is complete.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	err = write(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// backupTime returns when a Backup was made.
func backupTime(b *v1alpha1.Backup) *metav1.Time {
	if b.Status.StartTimestamp != nil {
		return b.Status.StartTimestamp
	}
	return &b.CreationTimestamp
}
