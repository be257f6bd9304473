// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/livecpm/livecpm/pkg/etcd/naming"
	"github.com/livecpm/livecpm/pkg/migration/steps"
	"github.com/livecpm/livecpm/test/driver"
)

const (
	pageOperations = "docs/operations/README.md"
	pageRecovery   = "docs/operations/recovery.md"
	pageAbort      = "docs/operations/abort.md"

	// blockTimeout bounds a block of commands; the longest waits for three rollouts.
	blockTimeout = 45 * time.Minute
)

// runner runs commands and returns what they print.
type runner interface {
	Run(ctx context.Context, block Block) (string, error)
}

// operator follows the page, in a shell.
type operator struct {
	runner
	pages               map[string]*Page
	source, destination string
}

// complaint is what kubectl and etcdctl say when something has not worked.
var complaint = regexp.MustCompile(
	`(?m)^(error:|Error |Error:|error from server|timed out|STOP:|bash:|jq: error|.*command not found|\{"level":"(warn|fatal))`)

// do runs a block and looks at what it prints, as an operator would.
func (o *operator) do(ctx context.Context, block Block, err error) (string, error) {
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, blockTimeout)
	defer cancel()
	output, err := o.Run(ctx, block)
	if err != nil {
		return output, err
	}
	if found := complaint.FindString(output); found != "" {
		return output, fmt.Errorf("the commands of section %q (line %d) failed:\n%s", block.Section, block.Line, output)
	}
	return output, nil
}

func (o *operator) block(section string, n int) (Block, error) {
	return o.pages[pageRecovery].Block(section, n)
}

func (o *operator) follow(ctx context.Context, section string, n int) (string, error) {
	block, err := o.block(section, n)
	return o.do(ctx, block, err)
}

// begin sets the variables and takes the function over from the page of all operations.
func (o *operator) begin(ctx context.Context, variables string) error {
	if _, err := o.do(ctx, Block{Section: "variables", Script: variables}, nil); err != nil {
		return err
	}
	block, err := o.pages[pageOperations].Block("etcdctl", 0)
	_, err = o.do(ctx, block, err)
	return err
}

// recover follows the page from its beginning to its end.
func (o *operator) recover(ctx context.Context, scenario Scenario) error {
	// Members that are gone do not answer, and kubectl complains of them.
	seen, err := o.follow(ctx, "Is it lost for good", 0)
	if seen == "" {
		return errors.Join(errors.New("no member was asked"), err)
	}
	if err := o.standStill(ctx); err != nil {
		return err
	}
	if err := o.choose(ctx, scenario.Side); err != nil {
		return err
	}
	for _, role := range scenario.Etcds {
		if err := o.rebuild(ctx, scenario, "etcd-"+role, seen); err != nil {
			return err
		}
	}
	if scenario.Backup {
		if _, err := o.follow(ctx, "3. Restart", 0); err != nil {
			return err
		}
	}
	if scenario.Side == steps.Destination {
		if _, err := o.follow(ctx, "The destination continues", 0); err != nil {
			return err
		}
	} else if err := o.sourceContinues(ctx, scenario); err != nil {
		return err
	}
	_, err = o.follow(ctx, "Both", 0)
	return err
}

// abandon lets the source abandon the destination.
func (o *operator) abandon(ctx context.Context) error {
	block, err := o.block("The destination is lost", 0)
	if err == nil {
		block, err = block.Replace("DESTINATION-SEED", o.destination)
	}
	_, err = o.do(ctx, block, err)
	return err
}

// abandonSource lets the destination finish without the source.
func (o *operator) abandonSource(ctx context.Context) error {
	block, err := o.block("The source is lost", 0)
	if err == nil {
		block, err = block.Replace("SOURCE-SEED", o.source)
	}
	_, err = o.do(ctx, block, err)
	return err
}

// clearSource removes what is left in the source when it has come back.
func (o *operator) clearSource(ctx context.Context) error {
	_, err := o.follow(ctx, "If the seed comes back", 0)
	return err
}

// abort asks for an ordinary abort. What follows it on the page watches the shoot without end.
func (o *operator) abort(ctx context.Context) error {
	block, err := o.pages[pageAbort].Block("Abort", 0)
	if err == nil {
		block, err = block.line(steps.AnnotationAbort + "=true")
	}
	_, err = o.do(ctx, block, err)
	return err
}

// stay takes that of the choices after an abort by which the shoot stays.
func (o *operator) stay(ctx context.Context) error {
	block, err := o.pages[pageAbort].Block("Afterwards", 0)
	if err == nil {
		block, err = block.line("# stay")
	}
	if err == nil {
		block, err = block.Replace("SOURCE-SEED", o.source)
	}
	_, err = o.do(ctx, block, err)
	return err
}

func (o *operator) standStill(ctx context.Context) error {
	block, err := o.block("1. Stand still", 0)
	if _, err := o.do(ctx, block, err); err != nil {
		return err
	}
	// "and in the destination"
	_, wait, found := strings.Cut(block.Script, "done\n")
	if !found {
		return errors.New("the page does not wait for the agents any more: adapt test/recovery to it")
	}
	block.Script = wait
	block, err = block.Replace("$SOURCE", "$DESTINATION")
	_, err = o.do(ctx, block, err)
	return err
}

// choose takes that of the two lines which belongs to the side.
func (o *operator) choose(ctx context.Context, side steps.Role) error {
	block, err := o.block("2. Choose", 0)
	if err != nil {
		return err
	}
	line := "SIDE=$SOURCE"
	if side == steps.Destination {
		line = "SIDE=$DESTINATION"
	}
	for candidate := range strings.Lines(block.Script) {
		if strings.HasPrefix(candidate, line+" ") {
			block.Script = candidate
			_, err = o.do(ctx, block, nil)
			return err
		}
	}
	return fmt.Errorf("the page has no line that begins with %s any more: adapt test/recovery to it", line)
}

// rebuild makes the etcd again out of a member or of a backup.
func (o *operator) rebuild(ctx context.Context, scenario Scenario, etcd, seen string) error {
	section, n := "A. From", 0
	if scenario.Backup {
		if _, err := o.follow(ctx, "B. From", 0); err != nil {
			return err
		}
		section, n = "B. From", 1
	} else if err := o.knowsMost(scenario.Side, etcd, seen); err != nil {
		return err
	}
	block, err := o.block(section, n)
	if err == nil {
		block, err = block.Replace("E="+"etcd-"+driver.RoleMain, "E="+etcd)
	}
	output, err := o.do(ctx, block, err)
	if err != nil {
		return err
	}
	// The last list is the one that counts.
	list := memberLines(output)
	if len(list) < members {
		return fmt.Errorf("%s has not got its %d members:\n%s", etcd, members, output)
	}
	for _, line := range list[len(list)-members:] {
		if line.state != "started" || line.learner || !o.belongs(line.name, scenario.Side, etcd) {
			return fmt.Errorf("%s has a member that is not as it should be: %+v", etcd, line)
		}
	}
	return nil
}

// belongs reports whether a member's name is one of the side. Those of an Etcd of the source that is older than the
// prefix have none.
func (o *operator) belongs(name string, side steps.Role, etcd string) bool {
	etcdRole := strings.TrimPrefix(etcd, "etcd-")
	prefixes := []string{o.source, ""}
	if side == steps.Destination {
		prefixes = []string{o.destination}
	}
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		_, ok := naming.OrdinalOf(name, prefix, etcdRole)
		return ok
	})
}

func (o *operator) seed(side steps.Role) string {
	if side == steps.Destination {
		return o.destination
	}
	return o.source
}

// indexLine is what the page prints of each member that answers.
var indexLine = regexp.MustCompile(`(?m)^(\S+) (\S+)-(\d): (\{.*\})$`)

// knowsMost makes sure that the first member of the side is the one that section A asks for.
func (o *operator) knowsMost(side steps.Role, etcd, seen string) error {
	type status struct {
		Learner bool   `json:"learner"`
		Index   uint64 `json:"index"`
	}
	var (
		first *status
		most  uint64
	)
	for _, match := range indexLine.FindAllStringSubmatch(seen, -1) {
		if match[2] != etcd {
			continue
		}
		var s status
		if err := json.Unmarshal([]byte(match[4]), &s); err != nil {
			return fmt.Errorf("failed to read what %s-%s says: %w", etcd, match[3], err)
		}
		most = max(most, s.Index)
		if match[3] == "0" && strings.Contains(match[1], o.seed(side)) {
			first = &s
		}
	}
	if first == nil || first.Learner || first.Index < most {
		return fmt.Errorf("the first member of %s in %s is not the one that section A asks for: %+v, the highest "+
			"index is %d", etcd, o.seed(side), first, most)
	}
	return nil
}

func (o *operator) sourceContinues(ctx context.Context, scenario Scenario) error {
	const section = "The source continues"
	if _, err := o.follow(ctx, section, 0); err != nil {
		return err
	}
	if len(scenario.Etcds) == 1 {
		if err := o.removeMembers(ctx); err != nil {
			return err
		}
	}
	for _, n := range []int{2, 3} {
		if _, err := o.follow(ctx, section, n); err != nil {
			return err
		}
	}
	return nil
}

// removeMembers removes the destination's members from the etcd that has kept its quorum, one by one.
func (o *operator) removeMembers(ctx context.Context) error {
	block, err := o.block("The source continues", 1)
	if err != nil {
		return err
	}
	list, remove, found := strings.Cut(strings.TrimSpace(block.Script), "\n")
	if !found {
		return errors.New("the page does not list and remove members any more: adapt test/recovery to it")
	}
	block.Script = list + "\n"
	for {
		output, err := o.do(ctx, block, nil)
		if err != nil {
			return err
		}
		var other *memberLine
		for _, line := range memberLines(output) {
			if strings.HasPrefix(line.name, o.destination+"-") || strings.Contains(line.peers, o.destination) {
				other = &line
			}
		}
		if other == nil {
			return nil
		}
		removal := Block{Section: block.Section, Line: block.Line + 1, Script: remove + "\n"}
		removal, err = removal.Replace("ID-OF-A-MEMBER-OF-THE-DESTINATION", other.id)
		if _, err := o.do(ctx, removal, err); err != nil {
			return err
		}
	}
}

// memberLine is a line of etcdctl's member list.
type memberLine struct {
	id, state, name, peers string
	learner                bool
}

func memberLines(output string) []memberLine {
	var lines []memberLine
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSpace(line), ", ")
		if len(fields) == 6 {
			lines = append(lines, memberLine{id: fields[0], state: fields[1], name: fields[2], peers: fields[3],
				learner: fields[5] == "true"})
		}
	}
	return lines
}
