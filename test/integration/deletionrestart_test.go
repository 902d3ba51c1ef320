// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grapnel-dev/grapnel/api/v1alpha1"
	"github.com/grapnel-dev/grapnel/internal/testing/env"
	"github.com/grapnel-dev/grapnel/internal/testing/suite"
)

// TestTheOperatorIsKilledInADeletion kills the operator while an action of a deletion works,
// and starts it again: the action is called once more, and the backup is gone in the end.
func TestTheOperatorIsKilledInADeletion(t *testing.T) {
	t.Parallel()
	s := site{world.StartOperator(t)}
	t.Run("in a DeleteAction", func(t *testing.T) { // Not parallel: they have one operator.
		action, release := held(t, v1alpha1.ActionKindDelete)
		b := s.NewBackup(world.CreateApp(t, 1))
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroy(t, b)
		awaitCalled(t, d, action)
		s.kill(t)
		release()
		s.RestartOperator(t)
		d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
		env.CheckEqual(t, "the actions", env.FormatActionStatuses(d.Status.DeleteActionsStatuses), []string{exampleCopy + " Completed", action + " Completed"})
		s.gone(t, b)
	})
	t.Run("in a DeleteItemAction", func(t *testing.T) {
		action := own(t, "cleans")
		cleaned, goOn := filepath.Join(t.TempDir(), "cleaned"), filepath.Join(t.TempDir(), "go-on")
		install(t, world.NewFaultPlugin(filepath.Base(action), []v1alpha1.PluginAction{
			{Name: action, Kind: v1alpha1.ActionKindDeleteItem, Selector: env.SelectorForAction(action)},
		}, "FAULT_CLEANED="+cleaned))
		app := world.CreateApp(t, 1)
		slow := env.NewConfigMap(app, 5)
		slow.Annotations = map[string]string{"fault.example.io/clean": "await:" + goOn}
		env.Create(t, world.Client, slow)
		b := s.NewBackup(app)
		b.Labels = env.LabelsForActions(action)
		b = outcome(t, env.Create(t, world.Client, b), v1alpha1.RunPhaseCompleted)
		d := destroy(t, b)
		shown := func() int { return strings.Count(content(t, cleaned), app+"/c5") }
		suite.Eventually(t, func() string { // nothing in the cluster tells
			if shown() == 0 {
				return "the object is not shown"
			}
			return ""
		})
		s.kill(t)
		touch(t, goOn)
		s.RestartOperator(t)
		d = destroyed(t, d, v1alpha1.RunPhaseCompleted)
		if shown() != 2 || d.Status.Attempts != 2 {
			t.Errorf("the object was shown %d times in %d attempts, want 2 in 2", shown(), d.Status.Attempts)
		}
		s.gone(t, b)
	})
}

func (s site) kill(t *testing.T) {
	t.Helper()
	if err := s.Operator.Kill(); err != nil {
		t.Fatal(err)
	}
}

// content reads a file; "" if there is none.
func content(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
