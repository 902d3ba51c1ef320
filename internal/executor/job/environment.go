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
	// envPrefix is the prefix of every variable that Grapnel sets, except tracing.EnvVar.
	envPrefix          = "GRAPNEL_"
	parameterEnvPrefix = envPrefix + "PARAM_"
)

// newEnvVars returns the variables of the container. Those of the Plugin come first, so that they
// cannot refer to the following ones.
func (o *Options) newEnvVars(call executor.Call) ([]corev1.EnvVar, error) {
	env := slices.Clone(o.Env)
	add := func(name, value string) error {
		if strings.ContainsRune(value, 0) {
			return fmt.Errorf("the value for %s contains a zero byte, which no environment variable can hold: encode it", name)
		}
		env = append(env, corev1.EnvVar{Name: name, Value: escapeReferences(value)})
		return nil
	}
	for _, v := range [][2]string{
		{"IDEMPOTENCY_KEY", call.Key},
		{"ATTEMPT", strconv.Itoa(int(call.Attempt))},
		{"POINT", call.Point},
		{"ACTION", call.Action},
		{"BACKUP_NAME", call.BackupName},
		{"SUBJECT_FILE", filesDirectory + "/" + fileSubject},
		{"OUTPUTS_FILE", filesDirectory + "/" + fileOutputs},
		{"BACKUP_OUTPUTS_FILE", filesDirectory + "/" + fileBackupOutputs},
	} {
		if err := add(envPrefix+v[0], v[1]); err != nil {
			return nil, err
		}
	}
	from := map[string]string{}
	for _, parameter := range slices.Sorted(maps.Keys(call.Parameters)) {
		name := parameterEnvName(parameter)
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

// parameterEnvName returns the name of the variable that holds a parameter.
func parameterEnvName(parameter string) string {
	return parameterEnvPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, parameter)
}

// escapeReferences escapes value for a variable. Kubernetes expands $(NAME) in the values of
// variables, also to values from Secrets, and reads $$ as $.
func escapeReferences(value string) string { return strings.ReplaceAll(value, "$", "$$") }
