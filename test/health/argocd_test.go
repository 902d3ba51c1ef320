// Copyright The Grapnel Authors.
// SPDX-License-Identifier: Apache-2.0

package health_test

import (
	"context"
	"slices"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// verdict is what a script answers.
type verdict struct{ status, message string }

// askArgoCD runs a health check on an object as Argo CD does, and checks that Argo CD would
// accept the answer.
func askArgoCD(t *testing.T, script string, object map[string]any) verdict {
	t.Helper()
	answer := runLua(t, script, object)
	said := verdict{status: lua.LVAsString(answer.RawGetString("status")), message: lua.LVAsString(answer.RawGetString("message"))}
	known := []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
	if !slices.Contains(known, said.status) {
		t.Fatalf("the script answers %q, which Argo CD does not know", said.status)
	}
	return said
}

// runLua runs a script on an object as Argo CD does, and returns the table that it returns: util/lua of
// github.com/argoproj/argo-cd opens the libraries package, base and table, and lets scripts require
// os, which has two functions; it sets obj, and waits for one second. It opens the other libraries for
// health checks only if an administrator sets useOpenLibs, and never for actions:
// https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks
func runLua(t *testing.T, script string, object map[string]any) *lua.LTable {
	t.Helper()
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.LoadLibName, lua.OpenPackage}, // it has to be the first
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
	} {
		call := lua.P{Fn: state.NewFunction(library.open), Protect: true}
		if err := state.CallByParam(call, lua.LString(library.name)); err != nil {
			t.Fatal(err)
		}
	}
	state.PreloadModule(lua.OsLibName, loadSafeOS)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the machine may be busy
	defer cancel()
	state.SetContext(ctx)
	state.SetGlobal("obj", luaValue(state, object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	answer, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns a %s, Argo CD wants a table", state.Get(-1).Type())
	}
	return answer
}

// loadSafeOS loads the part of the library os that scripts may require.
func loadSafeOS(state *lua.LState) int {
	lua.OpenOs(state)
	whole, safe := state.CheckTable(-1), state.NewTable()
	for _, name := range []string{"date", "time"} {
		safe.RawSetString(name, whole.RawGetString(name))
	}
	state.SetGlobal(lua.OsLibName, lua.LNil)
	state.Push(safe)
	return 1
}

// luaValue turns a value of an unstructured object into one of Lua. Numbers are int64, as in
// what a controller reads.
func luaValue(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		list := state.NewTable()
		for _, item := range v {
			list.Append(luaValue(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, luaValue(state, item))
		}
		return table
	}
	return lua.LNil
}

// goValue turns a value of Lua into one of an unstructured object, as Argo CD does: an empty table is a list,
// unless it was an object before the script ran.
func goValue(value lua.LValue, before any) any {
	switch v := value.(type) {
	case lua.LBool:
		return bool(v)
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return float64(v)
	case *lua.LTable:
		items, _ := before.([]any)
		fields, isObject := before.(map[string]any)
		if first, _ := v.Next(lua.LNil); first.Type() == lua.LTNumber || first == lua.LNil && !isObject {
			list := make([]any, v.Len())
			for i := range list {
				var item any
				if i < len(items) {
					item = items[i]
				}
				list[i] = goValue(v.RawGetInt(i+1), item)
			}
			return list
		}
		object := map[string]any{}
		v.ForEach(func(key, field lua.LValue) { object[key.String()] = goValue(field, fields[key.String()]) })
		return object
	}
	return nil
}
