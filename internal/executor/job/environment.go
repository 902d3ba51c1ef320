// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/grapnel-dev/grapnel/internal/executor"
)

const (
	// prefix is that of every variable that Grapnel sets.
	prefix          = "GRAPNEL_"
	parameterPrefix = prefix + "PARAM_"
)

// environment returns the variables of the container: those of the Plugin first, so
// that they cannot refer to those that follow.
func (o *Options) environment(call executor.Call) ([]corev1.EnvVar, error) {
	env := slices.Clone(o.Env)
	add := func(name, value string) error {
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("the value for %s contains a zero byte, which no environment variable can hold: encode it", name)
		}
		env = append(env, corev1.EnvVar{Name: name, Value: literal(value)})
		return nil
	}
	for _, v := range [][2]string{
		{"IDEMPOTENCY_KEY", call.Key},
		{"ATTEMPT", strconv.Itoa(int(call.Attempt))},
		{"POINT", call.Point},
		{"ACTION", call.Action},
		{"BACKUP_NAME", call.BackupName},
		{"SUBJECT_FILE", folder + "/" + fileSubject},
		{"OUTPUTS_FILE", folder + "/" + fileOutputs},
		{"BACKUP_OUTPUTS_FILE", folder + "/" + fileBackupOutputs},
	} {
		if err := add(prefix+v[0], v[1]); err != nil {
			return nil, err
		}
	}
	from := map[string]string{}
	for _, parameter := range slices.Sorted(maps.Keys(call.Parameters)) {
		name := variable(parameter)
		if other, taken := from[name]; taken {
			return nil, fmt.Errorf("the parameters %q and %q would both be the variable %s: rename one", other, parameter, name)
		}
		from[name] = parameter
		if err := add(name, call.Parameters[parameter]); err != nil {
			return nil, err
		}
	}
	return env, nil
}

// variable returns the name of the variable that holds a parameter.
func variable(parameter string) string {
	return parameterPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, parameter)
}

// literal returns what Kubernetes makes value of: it expands $(NAME) in the values of
// variables, also to those that come from Secrets, and takes $$ for $.
func literal(value string) string { return strings.ReplaceAll(value, "$", "$$") }
