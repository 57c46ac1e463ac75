from kagura_kernel.domain.policy import PermissionMode, SandboxPolicy, SandboxPolicyType, WriteMode
from kagura_kernel.domain.tools import ToolSpec
from kagura_kernel.tools.briefing import Powers, Variables, system_prompt

SPECS = [ToolSpec("bash", "", {}), ToolSpec("ask_user", "", {})]


def test_a_brain_learns_where_it_is():
    text = system_prompt(SPECS, "demo", SandboxPolicy())
    for fact in (
        "'demo'",
        "There is no network",
        "/workspace",
        "copy-on-write",
        "sees the diff",
        ".git",
        "host=true",
        "ask_user",
    ):
        assert fact in text


def test_each_write_mode_says_what_becomes_of_changes():
    texts = {mode: system_prompt(SPECS, "demo", SandboxPolicy(), write_mode=mode) for mode in WriteMode}
    assert "as you go" in texts[WriteMode.THROUGH]
    assert "thrown away" in texts[WriteMode.NONE]


def test_a_read_only_workspace_is_told():
    text = system_prompt(SPECS, "demo", SandboxPolicy(SandboxPolicyType.READ_ONLY))
    assert "/workspace is read-only" in text
    assert "copy-on-write" not in text


def test_headless_runs_are_told_that_nobody_answers():
    text = system_prompt(SPECS, "demo", SandboxPolicy(), headless=True)
    assert "refused at once" in text
    assert "with ask_user" not in text


def test_without_a_box_nothing_is_said_of_one():
    text = system_prompt(SPECS, "demo", SandboxPolicy(), sandboxed=False)
    assert "There is no sandbox" in text
    assert "copy-on-write" not in text
    full = system_prompt(SPECS, "demo", SandboxPolicy(), sandboxed=False, mode=PermissionMode.FULL_CONTROL)
    assert "cannot be taken back" in full


def test_it_stays_short():
    assert len(system_prompt(SPECS, "demo", SandboxPolicy())) < 2000


def test_what_can_be_reached_is_told_and_that_a_person_is_asked_for_more():
    powers = Powers(hosts=("python-packages", "example.org:8443"), asks=True)
    text = system_prompt(SPECS, "demo", SandboxPolicy(), powers=powers)
    assert "python-packages, example.org:8443 can be reached" in text
    assert "a person is asked while the connection waits" in text
    # What programs wait by themselves is shorter than what a person may take.
    assert "counts against no limit" in text
    assert "A program that gave up meanwhile was not refused" in text
    assert "There is no network" not in text


def test_where_nobody_is_asked_nothing_else_can_be_reached():
    text = system_prompt(SPECS, "demo", SandboxPolicy(), powers=Powers(hosts=("example.org",)))
    assert "example.org can be reached and nothing else" in text


def test_credentials_and_a_system_that_may_be_changed_are_told():
    powers = Powers(leases=("github:read: send requests to http://127.0.0.1:9/ instead",), writable_root=True)
    text = system_prompt(SPECS, "demo", SandboxPolicy(), powers=powers)
    assert "github:read: send requests to http://127.0.0.1:9/" in text
    assert "Never print or store one" in text
    assert "You are root in the box" in text


def test_variables_are_told_with_what_they_hold_and_how_to_hand_results_back():
    variables = Variables({"df": "DataFrame, 2 rows × 1 column: a\nb (int64)", "n": "int: 3"}, ("result", "plot"))
    text = system_prompt(SPECS, "demo", SandboxPolicy(), variables=variables)
    assert "df (DataFrame, 2 rows × 1 column: a b (int64)); n (int: 3)." in text
    assert "Hand back: result, plot. Assign it at the top level of a python call (the last call wins)" in text
    assert "$KAGURA_OUT/NAME.csv" in text


def test_what_variables_hold_is_told_at_bounded_length():
    variables = Variables({f"v{number}": "x" * 10_000 for number in range(32)})
    assert len(system_prompt(SPECS, "demo", SandboxPolicy(), variables=variables)) < 7000


def test_a_run_without_variables_is_told_nothing_of_them():
    assert "Hand back" not in system_prompt(SPECS, "demo", SandboxPolicy())
    assert "Variables of the notebook" not in system_prompt(SPECS, "demo", SandboxPolicy())


def test_what_is_told_of_plugins_comes_last_and_changes_nothing_else():
    plain = system_prompt(SPECS, "demo", SandboxPolicy())
    text = system_prompt(SPECS, "demo", SandboxPolicy(), plugins="Plugins: none of your business.")
    assert text == f"{plain}\n\nPlugins: none of your business."
    assert "Plugins" not in system_prompt(SPECS, "demo", SandboxPolicy(), plugins="Plugins", sandboxed=False)
