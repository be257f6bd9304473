// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	gardencorev1beta1 "github.com/gardener/gardener/pkg/apis/core/v1beta1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/livecpm/livecpm/pkg/preflight/gate"
)

// shootResource names the resource in errors of the API server.
var shootResource = gardencorev1beta1.Resource("shoots")

// garden is the API of the garden as one writer uses it during one turn. It does what the API server does with a Shoot:
// it gives every write another resource version, refuses a patch that names an earlier one, keeps what a door does not
// change (shoots, shoots/status and shoots/binding), and asks the policy of the gate. It knows Shoots and Seeds and
// what agents and the plugin ask for; everything else panics.
type garden struct {
	client.Client // Nil: what is not below is not known.
	turn          *turn
}

// Get reads the Shoot, or a Seed.
func (g *garden) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	switch into := object.(type) {
	case *gardencorev1beta1.Shoot:
		answer := g.turn.call(call{what: "reads the Shoot"}, func() reply { return reply{shoot: g.turn.world.shoot} })
		if answer.err != nil {
			return answer.err
		}
		answer.shoot.DeepCopyInto(into)
		return nil
	case *gardencorev1beta1.Seed:
		answer := g.turn.call(call{what: "reads Seed " + key.Name}, func() reply {
			return reply{seed: g.turn.world.seedObject(key.Name)}
		})
		if answer.err != nil {
			return answer.err
		}
		answer.seed.DeepCopyInto(into)
		return nil
	}
	panic(fmt.Sprintf("the garden of the search has no %T", object))
}

// Patch changes the metadata of the Shoot.
func (g *garden) Patch(
	_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	set := (&client.PatchOptions{}).ApplyOptions(options)
	return g.patch("", object, patch, set.DryRun)
}

// Status returns the writer of the status.
func (g *garden) Status() client.SubResourceWriter { return g.SubResource("status") }

// SubResource returns the writer of a door of the Shoot.
func (g *garden) SubResource(door string) client.SubResourceClient {
	return &doorOf{garden: g, door: door}
}

type doorOf struct {
	client.SubResourceClient // Nil, as above.
	garden                   *garden
	door                     string
}

// Patch changes what the door permits, and metadata.
func (d *doorOf) Patch(
	_ context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	set := (&client.SubResourcePatchOptions{}).ApplyOptions(options)
	return d.garden.patch(d.door, object, patch, set.DryRun)
}

// patch asks for a change of the Shoot through a door; the empty one is that of the Shoot itself.
func (g *garden) patch(door string, object client.Object, patch client.Patch, dryRun []string) error {
	shoot, ok := object.(*gardencorev1beta1.Shoot)
	if !ok {
		panic(fmt.Sprintf("the garden of the search changes no %T", object))
	}
	asked := call{what: "writes the Shoot" + through(door), writes: true}
	if len(dryRun) > 0 {
		asked = call{what: "proves the gate"}
	}
	answer := g.turn.call(asked, func() reply {
		request := write{door: door, dry: len(dryRun) > 0, wanted: shoot}
		if shoot.ResourceVersion != g.turn.world.shoot.ResourceVersion {
			request.wanted = nil
			var err error
			if request.body, err = patch.Data(object); err != nil {
				return reply{err: err}
			}
		}
		return g.turn.write(request)
	})
	if answer.err != nil {
		return answer.err
	}
	answer.shoot.DeepCopyInto(shoot)
	return nil
}

func through(door string) string {
	if door == "" {
		return ""
	}
	return " through shoots/" + door
}

// write is a request to change the Shoot through a door.
type write struct {
	door string
	// body is the patch. Instead of it, wanted is what a patch of the present version makes of the Shoot: the same, and
	// many times faster.
	body   []byte
	wanted *gardencorev1beta1.Shoot
	// dry reports that nothing is to be kept.
	dry bool
}

// write carries the request out, as the API server does.
func (t *turn) write(request write) reply {
	before := t.world.shoot
	after, err := patched(before, request)
	if err != nil {
		return reply{err: err}
	}
	if !t.world.gateOpen {
		refusal, err := t.world.model.policy.Refuses(before, after)
		if err != nil {
			panic(err)
		}
		if refusal != "" {
			return reply{err: apierrors.NewForbidden(shootResource, before.Name, fmt.Errorf(
				"ValidatingAdmissionPolicy '%[1]s' with binding '%[1]s' denied request: %[2]s", gate.PolicyName,
				refusal))}
		}
	}
	if request.dry {
		return reply{shoot: after}
	}
	written := after.DeepCopy()
	plain(after)
	if apiequality.Semantic.DeepEqual(before, after) {
		return reply{shoot: before}
	}
	after.ResourceVersion = next(before.ResourceVersion)
	t.judgeWrite(before, written)
	t.world.shoot = after
	return reply{shoot: after}
}

// patched returns the Shoot as the request wants it. A door that is not the status keeps the status, and only the
// binding changes the seed in the specification. All of them may change metadata.
func patched(before *gardencorev1beta1.Shoot, request write) (*gardencorev1beta1.Shoot, error) {
	after := request.wanted.DeepCopy()
	if after == nil {
		var err error
		if after, err = merged(before, request.body); err != nil {
			return nil, err
		}
	}
	kept := before.DeepCopy()
	switch request.door {
	case "status":
		after.Spec = kept.Spec
	case "binding":
		kept.Spec.SeedName = after.Spec.SeedName
		after.Spec, after.Status = kept.Spec, kept.Status
		after.Generation++
	case "":
		after.Spec, after.Status = kept.Spec, kept.Status
	default:
		panic("the Shoot of the search has no door " + request.door)
	}
	return after, nil
}

// merged returns the Shoot with a merge patch. It refuses one that names another version than the present one.
func merged(before *gardencorev1beta1.Shoot, body []byte) (*gardencorev1beta1.Shoot, error) {
	lock := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(body, lock); err != nil {
		return nil, fmt.Errorf("failed to read the patch: %w", err)
	}
	if version := lock.ResourceVersion; version != "" && version != before.ResourceVersion {
		return nil, apierrors.NewConflict(shootResource, before.Name, errors.New("the object has been modified"))
	}
	original, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("failed to write the Shoot as JSON: %w", err)
	}
	whole, err := jsonpatch.MergePatch(original, body)
	if err != nil {
		return nil, fmt.Errorf("failed to merge the patch: %w", err)
	}
	after := &gardencorev1beta1.Shoot{}
	if err := json.Unmarshal(whole, after); err != nil {
		return nil, fmt.Errorf("failed to read the Shoot from JSON: %w", err)
	}
	normalize(after)
	return after, nil
}

// normalize makes of times what they are without the trip through JSON.
func normalize(shoot *gardencorev1beta1.Shoot) {
	if shoot.Status.LiveMigration != nil {
		for i := range shoot.Status.LiveMigration.Conditions {
			condition := &shoot.Status.LiveMigration.Conditions[i]
			condition.LastTransitionTime = utc(condition.LastTransitionTime)
			condition.LastUpdateTime = utc(condition.LastUpdateTime)
		}
	}
	if shoot.Status.LastOperation != nil {
		shoot.Status.LastOperation.LastUpdateTime = utc(shoot.Status.LastOperation.LastUpdateTime)
	}
}

func utc(at metav1.Time) metav1.Time { return metav1.NewTime(at.UTC().Truncate(time.Second)) }

func next(version string) string {
	number, err := strconv.Atoi(version)
	if err != nil {
		panic(err)
	}
	return strconv.Itoa(number + 1)
}

// annotate asks for annotations as kubectl annotate does, without a lock. An empty value removes one.
func (g *garden) annotate(values map[string]string) error {
	changes := map[string]any{}
	for name, value := range values {
		changes[name] = value
		if value == "" {
			changes[name] = nil
		}
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": changes}})
	if err != nil {
		return fmt.Errorf("failed to make a patch: %w", err)
	}
	answer := g.turn.call(call{what: "writes the Shoot", writes: true},
		func() reply { return g.turn.write(write{body: body}) })
	return answer.err
}

// versions of the Shoot that a world tells apart: the present one, and any that is not.
const presentVersion, formerVersion = "100", "99"

// settle gives the Shoot of the world the present version, and what an agent still remembers of it the present or a
// former one. Which number a version has does not matter to anybody.
func (w *World) settle() {
	was := w.shoot.ResourceVersion
	version := func(shoot *gardencorev1beta1.Shoot) *gardencorev1beta1.Shoot {
		wanted := formerVersion
		if shoot.ResourceVersion == was {
			wanted = presentVersion
		}
		if shoot.ResourceVersion == wanted {
			return shoot
		}
		out := shoot.DeepCopy()
		out.ResourceVersion = wanted
		return out
	}
	w.shoot = w.model.shared(version(w.shoot))
	w.text = whole(w.shoot)
	if w.slow == nil {
		return
	}
	slow := *w.slow
	slow.replies = slices.Clone(slow.replies)
	for i := range slow.replies {
		if slow.replies[i].shoot != nil {
			slow.replies[i].shoot = version(slow.replies[i].shoot)
		}
	}
	w.slow = &slow
}
