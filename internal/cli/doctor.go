// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/grapnel-dev/grapnel/internal/diagnosis"
)

// newDoctorCommand returns the command that says what is wrong with an installation.
func (a *app) newDoctorCommand() *cobra.Command {
	var output outputFlag
	command := &cobra.Command{
		Use: "doctor", Short: "Show what is wrong with this installation, and what to do", Args: cobra.NoArgs,
		Long: "Show what is wrong with this installation, and what to do. What you may not read is not checked.\n\n" +
			"The exit code is 0 if there is nothing to do, 2 if there are warnings, and 1 if there are errors.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output.format != outputTable && output.printer() == nil {
				return fmt.Errorf("unknown output format %q; use table, json or yaml", output.format)
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			snapshot, err := a.observeInstallation(cmd.Context(), c)
			if err != nil {
				return err
			}
			findings := diagnosis.DiagnoseInstallation(snapshot)
			if err := a.printFindings(findings, output); err != nil {
				return err
			}
			return diagnosisError(findings)
		},
	}
	output.bindFlags(command, outputTable, "output format: table, json or yaml")
	return command
}

// checkReadable returns an error if the user may not read the objects about which the checks are.
func checkReadable(s *diagnosis.Snapshot) error {
	if apierrors.IsForbidden(s.Backups.Err) && apierrors.IsForbidden(s.Locations.Err) {
		return s.Backups.Err
	}
	return nil
}

// diagnosisError returns an error with the exit code for some findings; nil if there is nothing to do.
func diagnosisError(findings []diagnosis.Finding) error {
	switch diagnosis.WorstSeverity(findings) {
	case diagnosis.Error:
		return &exitError{code: exitFailure}
	case diagnosis.Warning:
		return &exitError{code: exitPartialFailure}
	default:
		return nil
	}
}

// printFindings prints findings in a format.
func (a *app) printFindings(findings []diagnosis.Finding, output outputFlag) error {
	if output.format == outputTable {
		return writeFindings(a.out, findings)
	}
	object := struct {
		Findings []diagnosis.Finding `json:"findings"`
	}{findings}
	content, err := json.MarshalIndent(object, "", "    ")
	content = append(content, '\n')
	if output.format == outputYAML {
		content, err = yaml.Marshal(object)
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	_, err = a.out.dataWriter().Write(content)
	return err
}

// writeFindings writes a line for each finding.
func writeFindings(out io.Writer, findings []diagnosis.Finding) error {
	for _, f := range findings {
		if _, err := fmt.Fprintf(out, "%-8s %-11s %s\n", f.Severity, f.Check, f); err != nil {
			return err
		}
	}
	return nil
}
