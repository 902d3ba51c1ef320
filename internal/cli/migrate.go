// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/dynamic"

	"github.com/grapnel-dev/grapnel/internal/veleromigration"
)

// defaultVeleroNamespace is where Velero is installed, unless its user chose another namespace.
const defaultVeleroNamespace = "velero"

// migrateFlags are the flags of the command that converts objects of Velero.
type migrateFlags struct {
	files             []string
	directory, report string
	options           veleromigration.Options
}

// newMigrateCommand returns the command that converts objects of other programs.
func (a *app) newMigrateCommand() *cobra.Command {
	return newGroupCommand("migrate", "Convert the objects of another program to those of Grapnel", a.newMigrateVeleroCommand())
}

// newMigrateVeleroCommand returns the command that converts objects of Velero.
func (a *app) newMigrateVeleroCommand() *cobra.Command {
	var flags migrateFlags
	command := &cobra.Command{
		Use: "velero [-n NAMESPACE]", Short: "Convert the objects of Velero to those of Grapnel", Args: cobra.NoArgs,
		Long: "Convert Velero's BackupStorageLocations, Schedules, Backups and Restores to those of Grapnel.\n\n" +
			"It reads them from the cluster, in the namespace of --namespace (default " + defaultVeleroNamespace + "), or from files. " +
			"It changes nothing:\nthe objects are printed, and a report says which fields are kept, changed or lost, and what to do. Backups\n" +
			"that Schedules created are not converted: Grapnel imports the stored backups from the same bucket.\n\n" +
			"The exit code is 2 if a field is lost.",
		Example: "  kubectl grapnel migrate velero -o converted --report report.txt\n" +
			"  kubectl grapnel migrate velero -f schedules.yaml -f - > grapnel.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			inputs, err := a.readVeleroObjects(cmd, &flags)
			if err != nil {
				return err
			}
			conversions, err := veleromigration.Convert(inputs, flags.options)
			if err != nil {
				return err
			}
			if err := errors.Join(a.printConverted(conversions, flags.directory), a.reportConversions(conversions, flags.report)); err != nil {
				return err
			}
			for i := range conversions {
				if conversions[i].HasLost() {
					return &exitError{code: exitPartialFailure}
				}
			}
			return nil
		},
	}
	f := command.Flags()
	f.StringArrayVarP(&flags.files, "filename", "f", nil, "file with objects of Velero, or - for the standard input, instead of the cluster; may be repeated")
	f.StringVarP(&flags.directory, "output", "o", "", "write a file for each object into this directory (default the standard output)")
	f.StringVar(&flags.report, "report", "", "write the report into this file (default the standard error output)")
	f.StringVar(&flags.options.Namespace, "to-namespace", cmp.Or(os.Getenv(namespaceVariable), defaultNamespace), "namespace of Grapnel's operator")
	f.BoolVar(&flags.options.IncludeSecrets, "include-secrets", false, "convert the credentials of locations, too: the output has their values")
	return command
}

// readVeleroObjects reads the files, or the cluster if there are none.
func (a *app) readVeleroObjects(cmd *cobra.Command, flags *migrateFlags) ([]veleromigration.Input, error) {
	if len(flags.files) == 0 {
		inputs, err := a.listVeleroObjects(cmd.Context(), cmp.Or(*a.flags.Namespace, defaultVeleroNamespace), flags.options.IncludeSecrets)
		if err == nil && len(inputs) == 0 {
			err = errors.New("there are no objects of Velero in this namespace; set --namespace to that of Velero")
		}
		return inputs, err
	}
	if *a.flags.Namespace != "" {
		return nil, errors.New("set either --namespace or --filename: files have namespaces of their own")
	}
	var inputs []veleromigration.Input
	for _, name := range flags.files {
		read, err := readVeleroFile(name, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, read...)
	}
	if len(inputs) > veleromigration.MaxObjects {
		return nil, fmt.Errorf("there are more than %d objects", veleromigration.MaxObjects)
	}
	return inputs, nil
}

// readVeleroFile reads a file, or the standard input.
func readVeleroFile(name string, stdin io.Reader) ([]veleromigration.Input, error) {
	if name == "-" {
		return veleromigration.ReadFile("standard input", stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	inputs, err := veleromigration.ReadFile(name, file)
	return inputs, errors.Join(err, file.Close())
}

// listVeleroObjects reads what is converted from the cluster. Secrets that the user may not read are left out, unless they
// are to be converted.
func (a *app) listVeleroObjects(ctx context.Context, namespace string, needSecrets bool) ([]veleromigration.Input, error) {
	c, err := a.connect()
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(c.config)
	if err != nil {
		return nil, err
	}
	var inputs []veleromigration.Input
	add := func(object *unstructured.Unstructured) {
		inputs = append(inputs, veleromigration.Input{Source: "cluster", Object: object})
	}
	for _, resource := range []string{"backupstoragelocations", "schedules", "backups", "restores"} {
		kind := objects.Resource(schema.GroupVersionResource{Group: "velero.io", Version: "v1", Resource: resource}).Namespace(namespace)
		for page := (metav1.ListOptions{Limit: 500}); ; {
			list, err := kind.List(ctx, page)
			if err != nil {
				return nil, explainVeleroError(err, resource, namespace)
			}
			for i := range list.Items {
				add(&list.Items[i])
			}
			if len(inputs) > veleromigration.MaxObjects {
				return nil, fmt.Errorf("there are more than %d objects; convert files with a part of them", veleromigration.MaxObjects)
			}
			if page.Continue = list.GetContinue(); page.Continue == "" {
				break
			}
		}
	}
	secrets := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace)
	for _, name := range veleromigration.SecretNames(inputs) {
		secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			add(secret)
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && !needSecrets: // the report says what to do
		default:
			return nil, explainVeleroError(err, "secrets", namespace)
		}
	}
	return inputs, nil
}

// explainVeleroError explains what is missing in the cluster, or to the user, which is not what Grapnel's roles are about.
func explainVeleroError(err error, resource, namespace string) error {
	switch {
	case apierrors.IsNotFound(err):
		return &exitError{code: exitFailure, message: "the cluster has no Velero: it does not have " + resource + ".velero.io; use --filename for files"}
	case apierrors.IsForbidden(err):
		return &exitError{code: exitFailure, message: fmt.Sprintf("%s\nAsk for the right to read %s in namespace %s, or use --filename for files.", err, resource, namespace)}
	}
	return err
}

// printConverted prints the converted objects, or writes a file for each.
func (a *app) printConverted(conversions []veleromigration.Conversion, directory string) error {
	printer := &printers.YAMLPrinter{}
	if directory != "" {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return err
		}
	}
	for i := range conversions {
		for _, object := range conversions[i].Objects {
			var err error
			if directory == "" {
				err = printer.PrintObj(object, a.out.dataWriter())
			} else {
				err = saveObject(directory, object)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// saveObject writes an object into a new file that only its owner can read.
func saveObject(directory string, object *unstructured.Unstructured) error {
	path := filepath.Join(directory, strings.ToLower(object.GetKind())+"-"+object.GetName()+".yaml")
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists; choose another directory", path)
	}
	var content bytes.Buffer
	if err := (&printers.YAMLPrinter{}).PrintObj(object, &content); err != nil {
		return err
	}
	_, err := saveFile(path, &content)
	return err
}

// reportConversions writes the report to the standard error output, or into a file.
func (a *app) reportConversions(conversions []veleromigration.Conversion, path string) error {
	if path == "" {
		return veleromigration.WriteReport(a.errOut, conversions)
	}
	var report bytes.Buffer
	if err := veleromigration.WriteReport(newTerminal(&report), conversions); err != nil {
		return err
	}
	_, err := saveFile(path, &report)
	return err
}
