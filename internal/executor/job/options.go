// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/grapnel-dev/grapnel/internal/executor"
	"github.com/grapnel-dev/grapnel/internal/redact"
)

// DefaultStartTimeout is the default of Options.StartTimeout.
const DefaultStartTimeout = 5 * time.Minute

// Options describe what runs and where. They must not be changed after the call of New. Client,
// Logs, Plugin, Namespace and Image are required.
type Options struct {
	// Client bypasses caches (client.NewWithWatch does).
	Client Client
	// Logs reads the logs of pods; see NewLogs.
	Logs Logs
	// Plugin is the name of the Plugin that declares the action, for a label.
	Plugin string
	// Namespace is the namespace of the Jobs.
	Namespace string
	// ServiceAccountName is the service account of the pod. If empty, no token is mounted.
	ServiceAccountName string
	// Image, PullPolicy and PullSecrets are as in a pod.
	Image       string
	PullPolicy  corev1.PullPolicy
	PullSecrets []corev1.LocalObjectReference
	// Command and Args are as in a container. References to Grapnel's variables are rejected:
	// parameters are data.
	Command, Args []string
	// Env is set in addition to Grapnel's variables, whose prefix is rejected. Values from Secrets
	// are read so that they can be redacted in texts.
	Env []corev1.EnvVar
	// Resources, NodeSelector and Tolerations are as in a pod.
	Resources    corev1.ResourceRequirements
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	// RunAsUser is the UID of the container's user; nil uses that of the image.
	RunAsUser *int64
	// PodSecurityContext and SecurityContext replace what the restricted pod security standard
	// requires.
	PodSecurityContext *corev1.PodSecurityContext
	SecurityContext    *corev1.SecurityContext
	// Labels are added to Jobs, pods and files; they do not replace the package's own.
	Labels map[string]string
	// StartTimeout is how long the container may take to start after its Job was created. Before
	// that, it is how long creating the Job or its files may fail.
	StartTimeout time.Duration
	// Redactor removes secrets from texts; nil removes none.
	Redactor *redact.Redactor
}

// Executor runs one action as Jobs. It is safe for concurrent use.
type Executor struct {
	options Options
	cluster cluster
}

var _ executor.Resumable = (*Executor)(nil)

// New returns an Executor, or an error that names the invalid option.
func New(options Options) (*Executor, error) {
	if err := options.validateFields(); err != nil {
		return nil, err
	}
	options.StartTimeout = cmp.Or(options.StartTimeout, DefaultStartTimeout)
	for _, v := range options.Env {
		if options.Redactor.IsSensitive(v.Name) {
			options.Redactor.AddValues(v.Value)
		}
	}
	return &Executor{options: options, cluster: cluster{client: options.Client, namespace: options.Namespace}}, nil
}

func (o *Options) validateFields() error {
	switch {
	case o.Client == nil || o.Logs == nil:
		return errors.New("job: Client and Logs are required")
	case o.Plugin == "" || o.Namespace == "" || o.Image == "":
		return errors.New("job: Plugin, Namespace and Image are required")
	case o.StartTimeout < 0:
		return fmt.Errorf("the start timeout %s is negative", o.StartTimeout)
	}
	if slices.ContainsFunc(slices.Concat(o.Command, o.Args), refersToGrapnelEnv) {
		return fmt.Errorf("the command refers to a variable of Grapnel with $(%s…): parameters are data and do not become "+
			"part of a command; read the variable inside the container", envPrefix)
	}
	return validateEnv(o.Env)
}

func validateEnv(env []corev1.EnvVar) error {
	seen := map[string]bool{}
	for _, v := range env {
		switch {
		case len(validation.IsEnvVarName(v.Name)) > 0:
			return fmt.Errorf("%q is not a valid name of an environment variable", v.Name)
		case strings.HasPrefix(strings.ToUpper(v.Name), envPrefix):
			return fmt.Errorf("the variable %s is not allowed: names that begin with %s are Grapnel's", v.Name, envPrefix)
		case seen[v.Name]:
			return fmt.Errorf("the variable %s is set twice", v.Name)
		case refersToGrapnelEnv(v.Value):
			return fmt.Errorf("the variable %s refers to a variable of Grapnel, whose names begin with %s: read that one inside the container",
				v.Name, envPrefix)
		}
		seen[v.Name] = true
	}
	return nil
}

func refersToGrapnelEnv(text string) bool { return strings.Contains(text, "$("+envPrefix) }
