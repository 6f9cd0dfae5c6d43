// The searches section: trials, and the effect of hyperparameters on the objectives.

const is_winner = (search, trial) => search.winners.includes(trial.number);
const ended_trials = (search) => search.trials.filter((trial) => trial.values);
const get_direction = (objective) => (objective.minimize ? 'lower is better' : 'higher is better');
const axis_text = (name) => (value) => get_text(name, value);

/// Tooltip lines with a trial's hyperparameters and values.
function split_lines(search, trial) {
  return [
    [null, `trial ${trial.number}`], ...search.space.map((dimension, i) => [null, dimension.key, trial.settings[i]]),
    ...(trial.values ?
            search.objectives.map((objective, i) => [null, objective.name, get_text(objective.name, trial.values[i])]) :
            [[null, trial.failure]])
  ];
}

/// Scale of a dimension of the search space.
function get_scale(dimension, from, to) {
  if (dimension.choices) return choice_scale(dimension.choices, from, to);
  return (dimension.log ? log_scale : linear_scale)(dimension.low, dimension.high, from, to, {count: 4});
}

/// Coordinate of a trial on that scale.
const get_location = (dimension, scale, setting) => scale.at(dimension.choices ? setting : Number(setting));

/// Scale of an objective over all trials, with a margin.
function objective_scale(search, index, from, to) {
  const values = ended_trials(search).map((trial) => trial.values[index]), low = Math.min(...values),
        high = Math.max(...values);
  const room = (high - low) * 0.06,
        scale =
            linear_scale(low - room, high + room, from, to, {binary: get_unit(search.objectives[index].name).binary});
  return scale;
}

/// Points for trials with tooltips, winners on top. `points` are [trial, x, y].
function dots(search, points, container, tip) {
  const group = svg_element('g');
  const ordered = [...points].sort(([a], [b]) => is_winner(search, a) - is_winner(search, b));
  for (const [trial, x, y] of ordered) {
    const dot = svg_element('circle', {
      class: is_winner(search, trial) ? 'dot winner' : 'dot',
      cx: x,
      cy: y,
      r: is_winner(search, trial) ? 5 : 3.8,
      'data-trial': trial.number
    });
    dot.addEventListener('pointerenter', () => show_tip(tip, container, x, y, split_lines(search, trial)));
    dot.addEventListener('pointerleave', () => {
      tip.hidden = true;
    });
    group.append(dot);
  }
  return group;
}

/// Chart of trials, at least one of which has values.
function trials_figure(search, caption, unit, height, draw, attributes = {}) {
  return figure(caption, unit, (container, width, tip) => {
    const picture = svg_element('svg', {viewBox: `0 0 ${width} ${height}`, height});
    draw(picture, width, container, tip);
    return picture;
  }, attributes);
}

function history_figure(search, index) {
  const objective = search.objectives[index];
  return trials_figure(
      search, `${objective.name} over trials`, 'line: best so far', 230, (picture, width, container, tip) => {
        const frame = get_frame(width, 230), numbers = search.trials.map((trial) => trial.number);
        const x = linear_scale(Math.min(...numbers) - 0.5, Math.max(...numbers) + 0.5, frame.left, frame.right);
        x.ticks = x.ticks.filter(Number.isInteger);
        const y = objective_scale(search, index, frame.bottom, frame.top);
        picture.append(axes(frame, x, y, {y_text: axis_text(objective.name)}));
        let best = null, path = '';
        const points = [];
        for (const trial of search.trials) {
          const at = x.at(trial.number);
          if (!trial.values) {
            const cross = svg_element(
                'path',
                {class: 'failed', d: `M${at - 4} ${frame.bottom - 8}l8 8m0 -8l-8 8`, 'data-failed': trial.number});
            cross.addEventListener(
                'pointerenter', () => show_tip(tip, container, at, frame.bottom - 40, split_lines(search, trial)));
            cross.addEventListener('pointerleave', () => {
              tip.hidden = true;
            });
            picture.append(cross);
            continue;
          }
          const value = trial.values[index], before = best;
          if (best === null || (objective.minimize ? value < best : value > best)) best = value;
          path += before === null ? `M${at} ${y.at(best)}` : `H${at}V${y.at(best)}`;
          points.push([trial, at, y.at(value)]);
        }
        picture.append(
            svg_element('path', {class: 'best', d: `${path}H${frame.right}`}), dots(search, points, container, tip));
      });
}

function importance_figure(search, index) {
  const height = 8 + 36 * search.space.length;
  return trials_figure(
      search, `Importance for ${search.objectives[index].name}`, 'fraction of variance explained', height,
      (picture, width) => {
        const rows = search.space.map((dimension, i) => ({dimension, found: search.importance[index][i]}));
        rows.sort((a, b) => (b.found?.share ?? -1) - (a.found?.share ?? -1));
        const x = linear_scale(0, 1, 0, width - 110);
        rows.forEach(({dimension, found}, row) => {
          const top = 4 + row * 36;
          picture.append(svg_element('text', {class: 'name', x: 0, y: top + 8}, short(dimension.key, 44)));
          if (!found) {
            picture.append(svg_element('text', {x: 0, y: top + 25}, 'not enough trials'));
            return;
          }
          const sign = found.correlation === undefined ? '' :
              found.correlation > 0                    ? ', rises with it' :
                                                         ', falls with it';
          picture.append(svg_element(
              'rect', {
                class: 'bar',
                x: 0,
                y: top + 16,
                height: 9,
                width: Math.max(x.at(found.share), 1),
                'data-key': dimension.key
              },
              svg_element('title', {}, `${dimension.key}: ${found.share}`)));
          const chance = x.at(Math.min(found.by_chance, 1));
          picture.append(svg_element(
              'line', {class: 'chance', x1: chance, x2: chance, y1: top + 13, y2: top + 28},
              svg_element('title', {}, 'expected value without any effect')));
          picture.append(svg_element(
              'text', {x: Math.max(x.at(found.share), chance) + 6, y: top + 25}, `${found.share.toFixed(2)}${sign}`));
        });
      });
}

function slice_figure(search, index, axis) {
  const objective = search.objectives[index], dimension = search.space[axis];
  return trials_figure(search, dimension.key, '', 180, (picture, width, container, tip) => {
    const frame = get_frame(width, 180), x = get_scale(dimension, frame.left + 8, frame.right - 8),
          y = objective_scale(search, index, frame.bottom, frame.top);
    picture.append(
        axes(frame, x, y, {y_text: axis_text(objective.name), x_text: dimension.choices ? plain : number_text}));
    picture.append(dots(
        search,
        ended_trials(search).map(
            (trial) => [trial, get_location(dimension, x, trial.settings[axis]), y.at(trial.values[index])]),
        container, tip));
  });
}

function front_figure(search, across_index, up_index) {
  const [across, up] = [search.objectives[across_index], search.objectives[up_index]];
  return trials_figure(
      search, `${up.name} and ${across.name}`, 'orange: Pareto front', 260, (picture, width, container, tip) => {
        const frame = get_frame(width, 260, {bottom: 38}),
              x = objective_scale(search, across_index, frame.left, frame.right),
              y = objective_scale(search, up_index, frame.bottom, frame.top);
        picture.append(axes(frame, x, y, {
          x_text: axis_text(across.name),
          y_text: axis_text(up.name),
          x_name: `${across.name}, ${get_direction(across)}`
        }));
        const winners = ended_trials(search)
                            .filter((trial) => is_winner(search, trial))
                            .sort((a, b) => a.values[across_index] - b.values[across_index]);
        if (search.objectives.length === 2)
          picture.append(svg_element('path', {
            class: 'best',
            d: winners
                   .map(
                       (trial, i) =>
                           `${i ? 'L' : 'M'}${x.at(trial.values[across_index])} ${y.at(trial.values[up_index])}`)
                   .join('')
          }));
        picture.append(dots(
            search,
            ended_trials(search).map(
                (trial) => [trial, x.at(trial.values[across_index]), y.at(trial.values[up_index])]),
            container, tip));
      });
}

/// Parallel coordinates: one line per trial, one axis per hyperparameter and objective. Trials with a better first
/// objective are more opaque.
function parallel_figure(search) {
  return trials_figure(
      search, 'Trials across hyperparameters and objectives', 'orange: best; fainter is worse',
      270, (picture, width, container, tip) => {
        const count = search.space.length + search.objectives.length, top = 40, bottom = 250, left = 40,
              right = width - 50;
        const at = (i) => (count > 1 ? left + (i / (count - 1)) * (right - left) : left);
        const scales = [
          ...search.space.map((dimension) => get_scale(dimension, bottom, top)),
          ...search.objectives.map((_, i) => objective_scale(search, i, bottom, top))
        ];
        const room = Math.max(Math.floor((right - left) / Math.max(count - 1, 1) / 6.4), 5);
        const trials = ended_trials(search), minimize = search.objectives[0].minimize;
        const ranked = [...trials].sort((a, b) => (minimize ? b.values[0] - a.values[0] : a.values[0] - b.values[0]));
        ranked.sort((a, b) => is_winner(search, a) - is_winner(search, b));
        ranked.forEach((trial, rank) => {
          const heights = [
            ...search.space.map((dimension, i) => get_location(dimension, scales[i], trial.settings[i])),
            ...search.objectives.map((_, i) => scales[search.space.length + i].at(trial.values[i]))
          ];
          const line = svg_element('path', {
            class: is_winner(search, trial) ? 'trial winner' : 'trial',
            'data-trial': trial.number,
            d: heights.map((height, i) => `${i ? 'L' : 'M'}${at(i).toFixed(1)} ${height.toFixed(1)}`).join('')
          });
          if (!is_winner(search, trial))
            line.setAttribute('stroke-opacity', (0.12 + 0.6 * ((rank + 1) / ranked.length) ** 2).toFixed(2));
          line.addEventListener('pointerenter', (event) => {
            line.classList.add('pointed');
            show_tip(tip, container, ...pointer_position(picture, event), split_lines(search, trial));
          });
          line.addEventListener('pointerleave', () => {
            line.classList.remove('pointed');
            tip.hidden = true;
          });
          picture.append(line);
        });
        scales.forEach((scale, i) => {
          const dimension = search.space[i],
                name = dimension ? dimension.key : search.objectives[i - search.space.length].name;
          const last_part = name.split('.').at(-1);
          picture.append(svg_element('line', {class: 'axis', x1: at(i), x2: at(i), y1: top, y2: bottom}));
          const middle = i === 0 ? 'start' : i === count - 1 ? 'end' : 'middle';
          picture.append(svg_element(
              'text', {
                class: 'name',
                x: i === 0          ? 0 :
                    i === count - 1 ? width :
                                      at(i),
                y: i % 2 && room < 16 ? 12 : 26,
                'text-anchor': middle
              },
              name.length <= room ? name : short(last_part, Math.max(room, 12)), svg_element('title', {}, name)));
          let free = Infinity;
          for (const tick of scale.ticks) {
            if (scale.at(tick) > free - 11) continue;
            free = scale.at(tick);
            picture.append(svg_element(
                'text', {class: 'halo', x: at(i) + 5, y: free + 4},
                short(
                    dimension?.choices ? plain(tick) :
                        dimension      ? number_text(tick) :
                                         get_text(name, tick),
                    9)));
          }
        });
      }, {class: 'wide'});
}

function trials_table(search) {
  const columns = [
    {name: 'trial', number: true},
    ...search.space.map((dimension) => ({name: dimension.key, number: !dimension.choices})),
    ...search.objectives.map((objective) => ({name: objective.name, number: true})), {name: 'time', number: true},
    ...(search.trials.some((trial) => trial.failure) ? [{name: 'failed', long: true}] : [])
  ];
  const rows = search.trials.map(
      (trial) => ({
        trial,
        cells: [
          trial.number,
          ...trial.settings.map(
              (setting, i) => (search.space[i].choices ? plain(setting) : number_text(Number(setting)))),
          ...search.objectives.map((objective, i) => (trial.values ? get_text(objective.name, trial.values[i]) : '–')),
          seconds_text(trial.seconds), trial.failure || ''
        ],
        keys: [
          trial.number,
          ...trial.settings.map(
              (setting, i) => (search.space[i].choices ? search.space[i].choices.indexOf(setting) : Number(setting))),
          ...search.objectives.map((_, i) => (trial.values ? trial.values[i] : null)), trial.seconds,
          trial.failure || null
        ],
      }));
  return table(columns, rows, {
    tall: true,
    order: (row, column) => row.keys[column],
    row_class: (row) => (is_winner(search, row.trial) ? 'winner' : '')
  });
}

function get_summary(search) {
  const failed = search.trials.length - ended_trials(search).length,
        method = search.sampler ? `${search.backend} (${search.sampler})` : search.backend;
  const summary = `${method}, ${search.trials.length} trials${failed ? `, ${failed} failed` : ''}`;
  const winners = search.trials.filter((trial) => is_winner(search, trial));
  if (!winners.length) return [element('p', {}, `${summary}: no results yet.`)];
  if (search.objectives.length > 1)
    return [element(
        'p', {}, `${summary}. ${winners.length} are on the Pareto front; their configs are in `,
        element('code', {}, `${search.folder}/pareto`), '.')];
  const [best] = winners,
        settings = search.space.map((dimension, i) => `${dimension.key}=${best.settings[i]}`).join(' ');
  return [element(
      'p', {},
      `${summary}. The best is trial ${best.number}: ${search.objectives[0].name} ${
          get_text(search.objectives[0].name, best.values[0])} with `,
      element('code', {}, settings), '. ', element('code', {}, `modrun train ${search.folder}/best.toml`),
      ' trains it again.')];
}

function search_section(search) {
  return [
    element('h2', {}, `Search ${search.name}`),
    ...get_summary(search),
    ...(ended_trials(search).length ? get_pictures(search) : []),
    ...(search.trials.length ? [element('h3', {}, 'Trials'), trials_table(search)] : []),
  ];
}

function get_pictures(search) {
  const indices = search.objectives.map((_, i) => i);
  const pairs = indices.flatMap((i) => indices.filter((j) => j > i).map((j) => [i, j]));
  return [
    ...indices.map(
        (i) => element(
            'div', {class: 'grid'}, history_figure(search, i), importance_figure(search, i),
            ...pairs.filter((_, pair) => pair % indices.length === i).map(([across,
                                                                            up]) => front_figure(search, across, up)))),
    element(
        'p', {class: 'quiet'},
        'Importance is the fraction of the variance of an objective\'s ranks that one hyperparameter explains by ' +
            'itself: the squared Spearman rank correlation (ρ²) for ranges, η² for choices. ' +
            'The vertical mark is the expected value without any effect.'),
    ...indices.flatMap(
        (i) =>
            [element(
                 'h3', {}, `${search.objectives[i].name} by hyperparameter, ${get_direction(search.objectives[i])}`),
             element('div', {class: 'grid small'}, ...search.space.map((_, axis) => slice_figure(search, i, axis)))]),
    parallel_figure(search),
  ];
}

function report() {
  const count = (number, name) => (number === 1 ? `1 ${name}` : `${number} ${name === 'run' ? 'runs' : 'searches'}`);
  const summary = [[data.runs.length, 'run'], [data.searches.length, 'search']]
                      .filter(([number]) => number)
                      .map(([number, name]) => count(number, name))
                      .join(', ');
  document.querySelector('main').append(
      element('h1', {}, 'modrun report ', element('span', {class: 'quiet'}, summary)), ...runs_section(),
      ...data.searches.flatMap(search_section));
  redraw_all();
}

report();
