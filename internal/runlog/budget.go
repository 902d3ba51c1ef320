// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package runlog

import "sync"

// MaxBudgetBytes is the size of a Budget.
const MaxBudgetBytes = MaxFileBytes / 8

// Budget limits what calls for the operations of a run add to its log together: thousands of
// operations are polled for hours, and must not fill the file before the run itself ends. Its zero
// value is a full budget. It is safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	spent int
}

// budgetWriter writes to a file within a budget.
type budgetWriter struct {
	file   *limitedFile
	budget *Budget
}

// Write writes one line, or drops it when the budget is spent.
func (w *budgetWriter) Write(line []byte) (int, error) {
	w.budget.mu.Lock()
	defer w.budget.mu.Unlock()
	if w.budget.spent > MaxBudgetBytes {
		return len(line), nil
	}
	if w.budget.spent += len(line); w.budget.spent > MaxBudgetBytes {
		_, err := w.file.Write([]byte("level=WARN msg=\"The plugins logged too much about operations; further lines of Progress and Cancel are dropped\"\n"))
		return len(line), err
	}
	return w.file.Write(line)
}
