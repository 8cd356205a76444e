package projection

import (
	"fmt"
	"strconv"

	"parley/internal/conversation"
)

const (
	kindTasks       = "TaskTrackerAction"
	kindTasksResult = "TaskTrackerObservation"
)

// taskItem is a task of the agent's list.
type taskItem struct {
	ID     string `json:"id"` // its place, from 1
	Title  string `json:"title"`
	Status string `json:"status"`
	Notes  string `json:"notes,omitempty"`
}

// taskList is what calls and results of the list of tasks have.
type taskList struct {
	Command  string     `json:"command"`
	TaskList []taskItem `json:"task_list"`
}

func tasksOf(raw []byte) taskList {
	list := taskList{Command: "view"}
	decode(raw, &list)
	if list.TaskList == nil {
		list.TaskList = []taskItem{}
	}
	for i := range list.TaskList {
		list.TaskList[i].ID = strconv.Itoa(i + 1)
	}
	return list
}

type tasksArgs struct {
	taskList
	Thought string `json:"thought"`
}

func tasksCall(call *conversation.ActionEvent, thought string) *Event {
	list := tasksOf(call.Action)
	message := fmt.Sprintf("Managing %d task items.", len(list.TaskList))
	switch len(list.TaskList) {
	case 0:
		message = "Clearing the task list."
	case 1:
		message = "Managing 1 task item."
	}
	return action(sourceAgent, "task_tracking", message, tasksArgs{list, thought})
}

func tasksResult(e *conversation.ObservationEvent, text string) *Event {
	return observation(sourceAgent, "task_tracking", text, tasksOf(e.Observation))
}
