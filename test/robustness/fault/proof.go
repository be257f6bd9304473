// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// A fault that was injected has struck only if its effect was seen: a request that nobody carried out proves nothing.
// Whatever injects a fault looks for the effect afterwards, and notes what it has seen here.

const (
	// proofTimeout bounds how long an effect may take to show.
	proofTimeout  = 5 * time.Second
	proofInterval = 50 * time.Millisecond
)

// Prove notes an effect that was seen, in a sentence.
func (t *Targets) Prove(format string, args ...any) {
	t.proofs = append(t.proofs, fmt.Sprintf(format, args...))
}

// TakeProofs returns the effects that were seen since the last call. Nothing was seen of targets that are nil.
func (t *Targets) TakeProofs() []string {
	if t == nil {
		return nil
	}
	proofs := t.proofs
	t.proofs = nil
	return proofs
}

// eventually looks until the effect shows, and returns an error if it does not.
func eventually(ctx context.Context, effect string, shows func(ctx context.Context) (bool, error)) error {
	var last error
	look := func(ctx context.Context) (bool, error) {
		var shown bool
		shown, last = shows(ctx)
		return shown && last == nil, nil
	}
	err := wait.PollUntilContextTimeout(ctx, proofInterval, proofTimeout, true, look)
	if err == nil {
		return nil
	}
	if last != nil {
		return fmt.Errorf("the fault has no proof, nobody could see whether %s: %w", effect, last)
	}
	return fmt.Errorf("the fault has no proof, it was not seen that %s", effect)
}

// processState returns the state of a process as the kernel names it, and false if there is none.
func (t *Targets) processState(pid int) (byte, bool) {
	// #nosec G304 -- the process file system.
	content, err := os.ReadFile(filepath.Join(t.Proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// The name of the program is in parentheses and may hold any character.
	_, rest, found := strings.Cut(string(content[strings.LastIndexByte(string(content), ')')+1:]), " ")
	if !found || rest == "" {
		return 0, false
	}
	return rest[0], true
}

// States of processes (proc(5)).
const (
	stateStopped = 'T'
	stateZombie  = 'Z'
)

// proveEnded waits until the processes are no more.
func (t *Targets) proveEnded(ctx context.Context, pids []int, what string) error {
	if err := eventually(ctx, "the processes of "+what+" have ended", func(context.Context) (bool, error) {
		for _, pid := range pids {
			if state, there := t.processState(pid); there && state != stateZombie {
				return false, nil
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	t.Prove("the processes %v of %s have ended", pids, what)
	return nil
}

// proveStopped waits until the process does not run.
func (t *Targets) proveStopped(ctx context.Context, pid int, name string) error {
	if err := eventually(ctx, name+" stands still", func(context.Context) (bool, error) {
		state, there := t.processState(pid)
		return there && state == stateStopped, nil
	}); err != nil {
		return err
	}
	t.Prove("%s (process %d) stands still", name, pid)
	return nil
}

// proveLeaving waits until the pod is gone, replaced, or on its way.
func (t *Targets) proveLeaving(ctx context.Context, seed Seed, pod types.NamespacedName, uid types.UID) error {
	if err := eventually(ctx, "pod "+pod.String()+" leaves", func(ctx context.Context) (bool, error) {
		now, err := seed.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("failed to get pod %s: %w", pod, err)
		}
		return now.DeletionTimestamp != nil || now.UID != uid, nil
	}); err != nil {
		return err
	}
	t.Prove("pod %s in %s leaves", pod, seed.Name)
	return nil
}
