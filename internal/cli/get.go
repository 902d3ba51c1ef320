// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// The output formats.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

// outputFlag is the flag -o.
type outputFlag struct{ format string }

func (o *outputFlag) bindFlags(command *cobra.Command, format, usage string) {
	command.Flags().StringVarP(&o.format, "output", "o", format, usage)
}

// checkFormat returns an error unless the format is one of those that a command has.
func (o *outputFlag) checkFormat(formats ...string) error {
	if !slices.Contains(formats, o.format) {
		last := len(formats) - 1
		return fmt.Errorf("unknown output format %q; use %s or %s", o.format, strings.Join(formats[:last], ", "), formats[last])
	}
	return nil
}

// copyJSON copies json of any size to the output, or converts it to yaml.
func (a *app) copyJSON(content io.Reader, output outputFlag) error {
	if output.format == outputJSON {
		return a.out.copyData(content)
	}
	all, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	converted, err := yaml.JSONToYAML(all)
	if err != nil {
		return fmt.Errorf("reading the file: %w", err)
	}
	return a.out.copyData(bytes.NewReader(converted))
}

// printer returns the printer of json or yaml; nil for another format.
func (o *outputFlag) printer() printers.ResourcePrinter {
	switch o.format {
	case outputJSON:
		return &printers.JSONPrinter{}
	case outputYAML:
		return &printers.YAMLPrinter{}
	}
	return nil
}

// printObject prints an object as json or yaml. A terminal gets no control characters; another program gets the data as
// they are.
func (a *app) printObject(object runtime.Object, output outputFlag) error {
	printer := output.printer()
	if printer == nil {
		return fmt.Errorf("unknown output format %q; use json or yaml", output.format)
	}
	return (&printers.OmitManagedFieldsPrinter{Delegate: printer}).PrintObj(object, a.out.dataWriter())
}

// newGetCommand returns the command that lists the objects of a kind.
func (a *app) newGetCommand(kind, resource string) *cobra.Command {
	var output outputFlag
	var selector string
	command := &cobra.Command{
		Use: "get [NAME...]", Short: "List " + resource, Aliases: []string{"list"},
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			if output.format == outputTable || output.format == outputWide {
				return a.printTable(cmd.Context(), c, kind, resource, selector, names, output.format == outputWide)
			}
			list := &unstructured.UnstructuredList{} // the printers need the kind of each item
			list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
			parsed, err := labels.Parse(selector)
			if err != nil {
				return fmt.Errorf("--selector: %w", err)
			}
			if err := c.List(cmd.Context(), list, client.InNamespace(c.namespace), client.MatchingLabelsSelector{Selector: parsed}); err != nil {
				return err
			}
			if err := keepNamed(list, kind, c.namespace, names); err != nil {
				return err
			}
			return a.printObject(list, output)
		},
	}
	output.bindFlags(command, outputTable, "output format: table, wide, json or yaml")
	command.Flags().StringVarP(&selector, "selector", "l", "", "only objects with matching labels")
	return command
}

// printTable prints the columns of the API server, which are those of kubectl get.
func (a *app) printTable(ctx context.Context, c *connection, kind, resource, selector string, names []string, wide bool) error {
	table, err := c.listTable(ctx, resource, selector)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		var known []string
		rows := map[string]metav1.TableRow{}
		for _, row := range table.Rows {
			if name, ok := row.Cells[0].(string); ok {
				known, rows[name] = append(known, name), row
			}
		}
		table.Rows = nil
		for _, name := range names {
			row, found := rows[name]
			if !found {
				return missingError(kind, c.namespace, name, known)
			}
			table.Rows = append(table.Rows, row)
		}
	}
	if len(table.Rows) == 0 {
		_, err := fmt.Fprintf(a.errOut, "No %s found in namespace %s.\n", resource, c.namespace)
		return err
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(table, a.out)
}

// listTable lists a resource as a table.
func (c *connection) listTable(ctx context.Context, resource, selector string) (*metav1.Table, error) {
	config := rest.CopyConfig(c.config)
	group := v1alpha1.GroupVersion
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &group, "/apis", scheme.Codecs.WithoutConversion()
	raw, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	request := raw.Get().Resource(resource).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if resource != "plugins" {
		request = request.Namespace(c.namespace)
	}
	if selector != "" {
		request = request.Param("labelSelector", selector)
	}
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	content, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	if err := json.Unmarshal(content, &table); err != nil {
		return nil, fmt.Errorf("reading the table of %s: %w", resource, err)
	}
	return &table, nil
}

// keepNamed removes all objects from a list but those with the names; all are kept if there are no names.
func keepNamed(list client.ObjectList, kind, namespace string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var known []string
	var kept []runtime.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		accessor, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		known = append(known, accessor.GetName())
		if slices.Contains(names, accessor.GetName()) {
			kept = append(kept, item)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return missingError(kind, namespace, name, known)
		}
	}
	return meta.SetList(list, kept)
}
