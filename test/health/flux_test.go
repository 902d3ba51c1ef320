// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// expressions are one entry of spec.healthCheckExprs of a Kustomization of Flux.
type expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Current    string `json:"current"`
	InProgress string `json:"inProgress"`
	Failed     string `json:"failed"`
}

// The answers of Flux. It waits for an object that is InProgress or Unknown until the timeout
// of the Kustomization is over.
const (
	fluxCurrent    = "Current"
	fluxInProgress = "InProgress"
	fluxFailed     = "Failed"
	fluxUnknown    = "Unknown"
)

// askFlux evaluates expressions on an object as Flux does
// (https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions, and
// RFC-0009 of github.com/fluxcd/flux2). An object whose status.observedGeneration is not its
// generation is InProgress. Then the expressions are evaluated, in this order, each without a
// check of types, with the fields of the object as variables. One that cannot be evaluated makes
// the object Unknown.
func askFlux(t *testing.T, of expressions, object map[string]any) string {
	t.Helper()
	observed, ok, err := unstructured.NestedInt64(object, "status", "observedGeneration")
	if err != nil {
		t.Fatal(err)
	}
	if generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation"); ok && observed != generation {
		return fluxInProgress
	}
	for _, question := range []struct{ expression, answer string }{
		{of.InProgress, fluxInProgress}, {of.Failed, fluxFailed}, {of.Current, fluxCurrent},
	} {
		yes, err := evaluate(t, question.expression, object)
		if err != nil {
			t.Logf("%s cannot be evaluated: %v", question.answer, err)
			return fluxUnknown
		}
		if yes {
			return question.answer
		}
	}
	return fluxInProgress
}

// evaluate has the environment of runtime/cel in github.com/fluxcd/pkg. An expression that
// cannot be parsed, or is no boolean, fails the test.
func evaluate(t *testing.T, expression string, object map[string]any) (bool, error) {
	t.Helper()
	env, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(), cel.EagerlyValidateDeclarations(true), cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true), cel.OptionalTypes(), ext.Strings(), ext.Sets(), ext.Encoders(),
	)
	if err != nil {
		t.Fatal(err)
	}
	parsed, issues := env.Parse(expression)
	if issues.Err() != nil {
		t.Fatalf("%s: %v", expression, issues.Err())
	}
	program, err := env.Program(parsed, cel.EvalOptions(cel.OptOptimize), cel.InterruptCheckFrequency(100))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	value, _, err := program.ContextEval(t.Context(), object)
	if err != nil {
		return false, err
	}
	yes, ok := value.(types.Bool)
	if !ok {
		t.Fatalf("%s is a %s, Flux wants a boolean", expression, value.Type())
	}
	return bool(yes), nil
}
