// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
)

// createFlags are the flags of all commands that create an object.
type createFlags struct {
	labels, annotations map[string]string
	output              outputFlag
}

func (f *createFlags) bindFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.StringToStringVar(&f.labels, "labels", nil, "labels of the object; Plugins select runs by them")
	flags.StringToStringVar(&f.annotations, "annotations", nil, "annotations of the object")
	f.output.bindFlags(command, "", "print the object as json or yaml, and do not create it")
}

// createObject creates an object, or prints it if the flags say so.
func (a *app) createObject(ctx context.Context, c *connection, object client.Object, flags createFlags) (created bool, err error) {
	object.SetLabels(mergeMaps(object.GetLabels(), flags.labels))
	object.SetAnnotations(mergeMaps(object.GetAnnotations(), flags.annotations))
	gvk, err := c.GroupVersionKindFor(object)
	if err != nil {
		return false, err
	}
	if flags.output.format != "" {
		object.GetObjectKind().SetGroupVersionKind(gvk)
		return false, a.printObject(object, flags.output)
	}
	if err := c.Create(ctx, object); err != nil {
		return false, err
	}
	return true, a.out.printf("%s %s created\n", gvk.Kind, object.GetName())
}

func mergeMaps(base, more map[string]string) map[string]string {
	if len(more) == 0 {
		return base
	}
	merged := map[string]string{}
	for _, m := range []map[string]string{base, more} {
		maps.Copy(merged, m)
	}
	return merged
}

// optionalBool is a flag that may be unset.
type optionalBool struct{ value **bool }

// Set implements pflag.Value.
func (o optionalBool) Set(text string) error {
	value, err := strconv.ParseBool(text)
	if err == nil {
		*o.value = &value
	}
	return err
}

// String implements pflag.Value.
func (o optionalBool) String() string {
	if o.value == nil || *o.value == nil {
		return ""
	}
	return strconv.FormatBool(**o.value)
}

// Type implements pflag.Value.
func (o optionalBool) Type() string { return "true|false" }

func bindOptionalBool(flags *pflag.FlagSet, target **bool, name, usage string) {
	flags.Var(optionalBool{target}, name, usage)
	flags.Lookup(name).NoOptDefVal = "true"
}

// patternList is a flag with names or globs of namespaces or resources.
type patternList struct{ list *[]v1alpha1.NamePattern }

// Set implements pflag.Value.
func (p patternList) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			return errors.New("there is an empty name; separate names by commas")
		}
		*p.list = append(*p.list, v1alpha1.NamePattern(part))
	}
	return nil
}

// String implements pflag.Value.
func (p patternList) String() string {
	if p.list == nil {
		return ""
	}
	return joinPatterns(*p.list)
}

// Type implements pflag.Value.
func (p patternList) Type() string { return "names" }

// selectorFlags are the flags for labels of archived objects.
type selectorFlags struct{ selector, orSelector string }

func (f *selectorFlags) bindFlags(flags *pflag.FlagSet) {
	flags.StringVarP(&f.selector, "selector", "l", "", "only objects with matching labels")
	flags.StringVar(&f.orSelector, "or-selector", "", `only objects that match one of several selectors: "a=b or c=d"`)
}

// apply sets the selectors of a spec.
func (f *selectorFlags) apply(one **metav1.LabelSelector, several *[]*metav1.LabelSelector) error {
	if f.selector != "" {
		parsed, err := metav1.ParseToLabelSelector(f.selector)
		if err != nil {
			return fmt.Errorf("--selector: %w", err)
		}
		*one = parsed
	}
	if f.orSelector == "" {
		return nil
	}
	for part := range strings.SplitSeq(f.orSelector, " or ") {
		parsed, err := metav1.ParseToLabelSelector(strings.TrimSpace(part))
		if err != nil {
			return fmt.Errorf("--or-selector: %w", err)
		}
		*several = append(*several, parsed)
	}
	return nil
}

// bindDuration binds a flag for an optional duration.
func bindDuration(flags *pflag.FlagSet, target **metav1.Duration, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration; write for example 720h or 90m", text)
		}
		*target = &metav1.Duration{Duration: parsed}
		return nil
	})
}

// bindParameters binds the flag for parameters of actions.
func bindParameters(flags *pflag.FlagSet, target *map[string]v1alpha1.ParameterSet) {
	flags.Func("parameter", "a parameter of an action, as ACTION:KEY=VALUE, for example example.io/freeze:timeout=30s; may be repeated", func(text string) error {
		action, rest, hasAction := strings.Cut(text, ":")
		key, value, hasValue := strings.Cut(rest, "=")
		if !hasAction || !hasValue || action == "" || key == "" {
			return fmt.Errorf("%q is not ACTION:KEY=VALUE", text)
		}
		if *target == nil {
			*target = map[string]v1alpha1.ParameterSet{}
		}
		if (*target)[action] == nil {
			(*target)[action] = v1alpha1.ParameterSet{}
		}
		(*target)[action][key] = v1alpha1.ParameterValue(value)
		return nil
	})
}

// newRunName returns a name that ends with the time, as Velero's client makes them.
func newRunName(prefix string) string {
	return prefix + "-" + time.Now().UTC().Format("20060102150405")
}
